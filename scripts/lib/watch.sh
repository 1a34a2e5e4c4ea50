# What counts as progress of a client, looked at once a second while it runs; builtins only where it is timed.
# shellcheck shell=bash
# Each is called with the client's file prefix; `fail` ends the round, a false result ends the client alone.

# After how many seconds in which neither run_queries nor the server does anything it is taken to hang.
readonly HANG_S=5

progress() { # VALUE: remember it; true while it has changed within the last STALL_S seconds
  if [[ $1 != "$PROGRESS" ]]; then
    PROGRESS=$1 PROGRESS_AT=$SECONDS
    server_work
    TICKS_THEN=$TICKS READ_THEN=$READ
  fi
  ((SECONDS - PROGRESS_AT < STALL_S))
}

watch_load() { # the loader retries for ever, so a total that stands still is the only sign
  local -a lines=()
  local total="" status
  mapfile -t lines <"$1.stdout"
  ((${#lines[@]} == 0)) || total=${lines[-1]}
  # time, rate, total, ...: the third field is the samples acknowledged so far.
  IFS=, read -r _ _ total _ <<<"$total"
  show_progress load "$total" "$P_WORKLOAD_SAMPLES"
  if ! progress "$total"; then
    status=$(grep -o 'HTTP status [0-9]*' "$1.stderr" | tail -n 1 || true)
    fail "no sample was acknowledged for $STALL_S s: the server answers ${status:-nothing}; $(last_words)"
  fi
}

count_queries_from_here() { # TOTAL: what is answered from now on is progress
  [[ -v SNAPSHOTS ]] || exec {SNAPSHOTS}<"$ROUND_DIR/metrics.prom"
  queries_so_far
  QUERIES_ASKED=$1 QUERIES_BEFORE=$QUERIES
}

show_queries() {
  ((${EPOCHREALTIME/./} >= ${PROGRESS_NEXT:-0})) || return 0
  queries_so_far
  ((QUERIES <= QUERIES_BEFORE)) || show_progress query $((QUERIES - QUERIES_BEFORE)) "$QUERIES_ASKED"
}

queries_so_far() { # -> QUERIES, as the newest snapshot has them; only what has been written since the last look is read
  local line
  local -a lines=()
  mapfile -t -u "$SNAPSHOTS" lines
  for line in "${lines[@]}"; do
    [[ $line != "$QUERIES_SERIES "* || ! ${line##* } =~ ^[0-9]+$ ]] || QUERIES=${line##* }
  done
}

watch_query() { # a client that uses no CPU waits for the server, or hangs at its start
  # Set, since it may be over by now, and an unset one would end this shell without a word.
  ((QUERIES_ASKED == 0)) || show_queries
  local child="" stat=""
  local -a field=(0 0 0 0 0 0 0 0 0 0 0 0 0)
  { read -r child <"/proc/$CLIENT/task/$CLIENT/children"; } 2>/dev/null || true
  [[ -n $child ]] || return 0
  { read -r stat <"/proc/${child%% *}/stat"; } 2>/dev/null || return 0
  read -r -a field <<<"${stat##*) }"
  if ! progress "${field[11]} ${field[12]}"; then
    fail "no query was answered for $STALL_S s; $(last_words)"
  fi
  # TSBS's run_queries can hang at its start, asleep while nobody works for it (docs/surprises.md). Its connection
  # says nothing: one of its workers may have been served and keep it open.
  ((SECONDS - PROGRESS_AT < HANG_S)) || ! server_is_idle
}

server_is_idle() { # under a tenth of a core, and nothing read from disk, since the client's last progress
  server_work
  ((READ == READ_THEN && (TICKS - TICKS_THEN) * 10 < (SECONDS - PROGRESS_AT) * 100))
}

server_work() { # -> TICKS of CPU (hundredths of a second) and bytes READ from storage so far
  local stat="" key value
  local -a field
  TICKS=0 READ=0
  { read -r stat <"/proc/$SERVER_PID/stat"; } 2>/dev/null || return 0
  read -r -a field <<<"${stat##*) }"
  TICKS=$((field[11] + field[12]))
  while read -r key value; do
    [[ $key != read_bytes: ]] || READ=$value
  done <"/proc/$SERVER_PID/io"
}
