# TSBS's generators, whose word is not enough: they print their errors among the data, and exit with 0.
# shellcheck shell=bash
# Needs lib/workload.sh, WORK, MAKER, TSBS_BIN and the plan's workload.

# Measured: what a line of cpu-only data takes on average.
readonly USUAL_LINE_BYTES=345

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

first_error() { # of TSBS's output: what it says itself, without Go's stack
  LC_ALL=C sed -nE '/^(error|panic): /{s///p;q}' | tr -cd '[:print:]'
}
