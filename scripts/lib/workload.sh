# Where data and query files lie, how they are published, and how one is known to be good; lib/generate.sh makes them.
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
  # A signal may come before its number is written down.
  MAKER=starting
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
  [[ $MAKER != starting ]] || MAKER=${!:-}
  if [[ -n $MAKER ]]; then
    kill -TERM -- "-$MAKER" 2>/dev/null || true
    wait "$MAKER" 2>/dev/null || true
  fi
  # Before what fills it is removed.
  if ((code != 0 && code != EXIT_INTERRUPTED && SPACE_TOLD == 0)) && say_if_full; then code=$EXIT_USER; fi
  rm -rf -- "$WORK" "$TSDUEL_SCRATCH/feed.lines.partial"
  exit "$code"
}
