# How a data or query file comes to be, and how it is known to be good.
# A file F is good when F.json beside it names its size and sha256 and how many lines or queries are in it. The record
# goes away before F is replaced and comes back last, so a kill at any moment leaves a file without a record at worst.
# The sha256 is that of the file as it lies on the disk: 0.1 s to verify where the content would take seconds, so
# it is verified on every start of a run. The content of the data file is identified by `content_checksum`, the
# 32 bits of XXH64 that zstd puts at a frame's end and checks when it unpacks: free, and the same for every zstd.
# shellcheck shell=bash
# Read by make-workload.
# shellcheck disable=SC2034

# A line of data is at most about this long, a query about this (single-groupby-5-8-1: 516).
readonly LINE_BYTES=360 QUERY_BYTES=1000
# Measured: what a line of cpu-only data takes on average.
readonly USUAL_LINE_BYTES=345

is_good() { # FILE ENTRIES: FILE is there and whole, and has that many lines or queries
  local -r file=$1
  local bytes sha256 entries
  [[ -e $file && -e $file.json ]] || return 1
  read -r bytes sha256 entries < <(jq -r '"\(.bytes) \(.sha256) \(.entries)"' "$file.json" 2>/dev/null) || true
  [[ ${entries:-} == "$2" ]] || return 1
  if [[ $(stat -c %s -- "$file") == "$bytes" && $(sha256_of "$file") == "$sha256" ]]; then return 0; fi
  note "$file is not as it was written (cut short, or changed): making it again"
  return 1
}

check_free_space() { # before the first byte is written
  local needed=0 free file count
  for file in "${MISSING[@]}"; do
    if [[ $file == "$DATA" ]]; then
      needed=$((needed + P_WORKLOAD_ESTIMATED_BYTES))
    else
      count=${QUERY_FILES[$file]##*$'\t'}
      needed=$((needed + count * QUERY_BYTES))
    fi
  done
  ((needed > 0)) || return 0
  free=$(df -B1 --output=avail -- "$DIR" | tail -n 1)
  ((free >= needed)) || SPACE_TOLD=1
  ((SPACE_TOLD == 0)) || die "$EXIT_USER" "too little disk for the data and query files: about $(mebibytes "$needed") are needed and $(mebibytes "$free") are free in $DIR: free some, point TSDUEL_CACHE to a larger disk, or make workload.scale or the window smaller"
}

make_file() { # FILE GENERATOR [ARGS...]: GENERATOR writes $WORK/new and $WORK/new.json; publish both as FILE
  local -r file=$1
  local code=0
  shift
  # In the background and in a process group of its own: so a signal is acted on at once, and ends the whole pipeline.
  set -m
  "$@" &
  MAKER=$!
  set +m
  # The data may take an hour; a file of queries is waited for alone.
  while [[ $file == "$DATA" ]] && is_alive "$MAKER"; do
    pause 0.2
    show_generated
  done
  wait "$MAKER" || code=$?
  MAKER=""
  ((code == 0)) || exit "$code"
  rm -f -- "$file.json"
  mv -- "$WORK/new" "$file"
  mv -- "$WORK/new.json" "$file.json"
}

begin_making() { # PHASE: data or queries, of no round
  PHASE_BEGIN=$EPOCHREALTIME
  event phase-start phase "$1"
}

end_making() { # PHASE COUNT
  phase_ends "" "$1" "" 0 "$PHASE_BEGIN" "$EPOCHREALTIME" "$2"
}

show_generated() { # about how many lines there are by now: what the generator has written, in lines of the usual length
  local generator="" name="" key value
  # It ends without a line's end, which is no success for `read`.
  { read -r generator _ <"/proc/$MAKER/task/$MAKER/children"; } 2>/dev/null || true
  { read -r name <"/proc/${generator:-none}/comm"; } 2>/dev/null || return 0
  [[ $name == tsbs_generate* ]] || return 0
  while read -r key value; do
    [[ $key != wchar: ]] || show_progress data "$((value / USUAL_LINE_BYTES))" "$P_WORKLOAD_LINES"
  done 2>/dev/null <"/proc/$generator/io" || true
}

generate_data() {
  local code=0 lines="" bytes=0 checksum
  pack_data || code=$?
  # TSBS reports its errors among the data and exits 0, so the count is what tells; the reason is the last line. Unpacking
  # all of it (1 s for 20 million samples) also proves that it can be, and zstd compares the content's checksum.
  if ((code == 0)); then
    zstd -dqc -- "$WORK/new" | wc -lc >"$WORK/counts" || code=$?
    read -r lines bytes <"$WORK/counts"
  fi
  if ((code != 0 || lines != P_WORKLOAD_LINES)); then
    data_is_not_whole "$code" "${lines:-$(zstd -dqc -- "$WORK/new" 2>/dev/null | wc -l)}"
  fi
  checksum=$(tail -c 4 -- "$WORK/new" | od -An -tx4 | tr -d ' ')
  record "$lines" --arg content_checksum "$checksum" --argjson content_bytes "$bytes"
}

pack_data() { # -> $WORK/new
  local -a options
  read -r -a options <<<"$(zstd_options)"
  # What this gains over `| gzip`: a garbage collector that runs less often, zstd at its lightest with a window of several
  # time steps, and two jobs, so that zstd reads on while it packs and the generator, the slower of the two, never waits.
  # The bytes are those of the generator, in its order.
  GOGC=400 "$TSBS_BIN/tsbs_generate_data" --format="$P_WORKLOAD_FORMAT" --use-case="$P_WORKLOAD_USE_CASE" --scale="$P_WORKLOAD_SCALE" \
    --seed="$P_WORKLOAD_SEED" --timestamp-start="$P_WORKLOAD_START" --timestamp-end="$P_WORKLOAD_END" \
    --log-interval="$P_WORKLOAD_INTERVAL" 2>"$WORK/stderr" | zstd -qc "${options[@]}" >"$WORK/new"
}

data_is_not_whole() { # EXIT_CODE LINES
  local reason
  reason=$({ cat -- "$WORK/stderr" && zstd -dqc -- "$WORK/new" | tail -n 1 | cut -c 1-500; } 2>/dev/null | first_error)
  die "$EXIT_FAILED" "tsbs_generate_data wrote $2 lines instead of $P_WORKLOAD_LINES (exit code $1)${reason:+: $reason}; nothing was kept"
}

generate_queries() { # TYPE SEED COUNT
  local found reason code=0
  # Through cat, because the generator does not look at the result of its last write: a full disk would go unseen.
  "$TSBS_BIN/tsbs_generate_queries" --format="$P_WORKLOAD_FORMAT" --use-case="$P_WORKLOAD_USE_CASE" --query-type="$1" --scale="$P_WORKLOAD_SCALE" \
    --seed="$2" --queries="$3" --timestamp-start="$P_WORKLOAD_START" --timestamp-end="$P_WORKLOAD_END" 2>"$WORK/stderr" | cat >"$WORK/new" || code=$?
  # "VictoriaMetrics max of ...: 20000 points", on stderr once it is done.
  found=$(awk '/: [0-9]+ points$/ { n += $(NF - 1) } END { print n + 0 }' "$WORK/stderr")
  if ((code != 0 || found != $3)) || grep -qa '^error: ' "$WORK/new"; then
    reason=$({ cat -- "$WORK/stderr" && head -c 500 -- "$WORK/new"; } | first_error)
    # A type TSBS knows nothing of is for the user to mend.
    [[ $reason == "" ]] || die "$EXIT_USER" "queries.types: tsbs_generate_queries makes no $1 for $P_WORKLOAD_USE_CASE: $reason"
    die "$EXIT_FAILED" "tsbs_generate_queries made $found queries of $1 instead of $3 (exit code $code); nothing was kept"
  fi
  record "$found"
}

zstd_options() { # the window has to hold the last line of the same host, one time step back, or no tag is found again
  local -r step=$((LINE_BYTES * P_WORKLOAD_LINES * P_WORKLOAD_INTERVAL_S / $(plan '.workload | (.end | fromdate) - (.start | fromdate)')))
  # Not larger than it must be: zstd works on pieces of four windows, and small ones stay in the processor's cache.
  local window=20
  while ((window < 22 && step >= 1 << window)); do window=$((window + 1)); done
  if ((step < 1 << window)); then
    echo "-1 --zstd=wlog=$window,hlog=17 -T2"
    return
  fi
  # Larger than 27 would need --memory to unpack.
  while ((window < 27 && step * 5 / 4 > 1 << window)); do window=$((window + 1)); done
  echo "-1 --long=$window --zstd=lmml=128,lhrlog=7,lhlog=20 -T2"
}

# Of the memory: so that the unpacked data stays in the page cache and leaves the database what it needs.
readonly FEED_SHARE=8

unpack_to_feed() { # -> FEED: what the loader reads, the data unpacked once for all rounds where that is small, else the data file
  local -r file=$TSDUEL_SCRATCH/feed.lines
  local bytes memory free
  FEED=$DATA
  # zstd beside the loader takes half as much CPU as the loader itself, from the server that is measured.
  rm -f -- "$file" "$file.partial"
  bytes=$(jq -r '.content_bytes // 0' "$DATA.json")
  memory=$(($(awk '/^MemTotal:/ { print $2 }' /proc/meminfo) * 1024))
  private_directory "$TSDUEL_SCRATCH"
  free=$(df -B1 --output=avail -- "$TSDUEL_SCRATCH" | tail -n 1)
  ((bytes > 0 && bytes <= memory / FEED_SHARE && bytes <= free / FEED_SHARE)) || return 0
  # zstd compares the content's checksum, so what is whole is right.
  zstd -dqc -- "$DATA" >"$file.partial"
  mv -- "$file.partial" "$file"
  FEED=$file
}

record() { # ENTRIES [JQ_ARGS...]: of $WORK/new
  local -r entries=$1
  shift
  jq -n --arg sha256 "$(sha256_of "$WORK/new")" --argjson bytes "$(stat -c %s -- "$WORK/new")" --argjson entries "$entries" "$@" \
    '{sha256: $sha256, bytes: $bytes, entries: $entries} + ($ARGS.named | del(.sha256, .bytes, .entries))' >"$WORK/new.json"
}

sha256_of() {
  local sum
  sum=$(sha256sum <"$1")
  printf '%s' "${sum%% *}"
}

first_error() { # of TSBS's output: what it says itself, without Go's stack
  LC_ALL=C sed -nE '/^(error|panic): /{s///p;q}' | tr -cd '[:print:]'
}

mebibytes() {
  printf '%d MiB' $((($1 + (1 << 20) - 1) >> 20))
}

remove_stale_partials() { # of processes that were killed; after a restart another process may have the number
  local partial
  for partial in "$DIR"/partial.*; do
    if ! grep -qzF make-workload "/proc/${partial##*.}/cmdline" 2>/dev/null; then rm -rf -- "$partial"; fi
  done
}

leave() {
  local code=$?
  trap '' INT TERM HUP
  if [[ -n $MAKER ]]; then
    kill -TERM -- "-$MAKER" 2>/dev/null || true
    wait "$MAKER" 2>/dev/null || true
  fi
  # Before what fills it is removed.
  if ((code != 0 && code != EXIT_INTERRUPTED && SPACE_TOLD == 0)) && say_if_full; then code=$EXIT_USER; fi
  rm -rf -- "$WORK" "$TSDUEL_SCRATCH/feed.lines.partial"
  exit "$code"
}
