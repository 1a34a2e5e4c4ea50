# The phases of a TSBS round, in their order. Sourced by round-tsbs.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034

# Enough to see a rate; few enough for queries that take a second each.
readonly PROBE=20

phase_start() {
  begin_phase start
  start_server
  FIRST_PID=$SERVER_PID LAST_PID=$SERVER_PID
  end_phase 0
}

phase_load() {
  local -r prefix=$ROUND_DIR/load
  STALL_S=$P_WATCHDOG_LOAD_STALL_S
  edge load begin
  begin_phase load
  start_scraper
  run_client "$prefix" watch_load "$HERE/targets/$TARGET/load" "$(jq -r '.data.feed_path // .data.path' "$RUN_DIR/raw/workload.json")" \
    "$P_WORKLOAD_WORKERS" "$P_WORKLOAD_BATCH_SIZE" "$ROUND_DIR/load.json"
  stop_scraper
  edge load end
  mv -- "$prefix.stdout" "$ROUND_DIR/load.csv"
  rm -f -- "$prefix.exit"
  end_phase "$CLIENT_EXIT" "$USER_S" "$SYSTEM_S" "$BEGIN" "$END" "$P_WORKLOAD_SAMPLES"
  server_is_alive
  ((CLIENT_EXIT == 0)) || fail "the loader ended with $(exit_words "$CLIENT_EXIT"): $(client_words "$ROUND_DIR/load.stderr")$(want_of_memory)"
  check_sent
}

check_sent() { # before an hour of queries on half the data
  local sent
  sent=$(sed -nE 's/^loaded ([0-9]+) (metrics|samples) .*/\1/p' "$ROUND_DIR/load.csv")
  [[ $sent == "$P_WORKLOAD_SAMPLES" ]] ||
    fail "the loader says it sent ${sent:-no} samples, and the plan has $P_WORKLOAD_SAMPLES$(complaint)"
}

complaint() { # of the loader, if it had one
  [[ ! -s $ROUND_DIR/load.stderr ]] || printf '; it says: %s' "$(client_words "$ROUND_DIR/load.stderr")"
}

phase_settle() {
  local end
  start_scraper
  begin_phase settle
  long_adapter settle "$P_SETTLE_MODE" "$P_SETTLE_TIMEOUT_S" "$P_SETTLE_POLLS" "$P_SETTLE_POLL_S" \
    2>"$ROUND_DIR/settle.stderr" || fail "$(tail -n 1 "$ROUND_DIR/settle.stderr" | one_line); $(last_words)"
  end=$EPOCHREALTIME
  rm -f -- "$ROUND_DIR/settle.stderr"
  stop_scraper
  end_phase 0 0 0 "$PHASE_BEGIN" "$end"
  edge settle end
}

phase_responses() { # TYPES...: a few queries of each type, untimed, with their answers kept for comparison
  local type done=0
  begin_phase responses
  STALL_S=$P_WATCHDOG_QUERY_STALL_S
  for type in "$@"; do
    show_progress responses "$((done++))" $#
    QUERY_TYPE=$type
    send "$ROUND_DIR/responses/$type" "$(query_field "$type" responses_path)" "$P_QUERIES_RESPONSES" 1 --print-responses
    gzip -qn1 <"$ROUND_DIR/responses/$type.stderr" >"$ROUND_DIR/responses/$type.gz"
    rm -f -- "$ROUND_DIR/responses/$type".{stdout,stderr,json}
  done
  QUERY_TYPE=""
  end_phase 0
  edge responses end
}

phase_query() { # TYPE
  local -r type=$1
  local path workers count=""
  path=$(query_field "$type" path) workers=$P_QUERIES_WORKERS
  STALL_S=$P_WATCHDOG_QUERY_STALL_S
  begin_phase query "$type"
  [[ $DB_CACHE != cold ]] || restart_cold
  choose_count "$type" "$path" "$workers"
  [[ $DB_CACHE != warm ]] || send "$ROUND_DIR/query/$type.warm" "$path" "$count" "$workers"
  edge query begin "$type"
  count_queries_from_here "$count"
  start_scraper
  send "$ROUND_DIR/query/$type" "$path" "$count" "$workers"
  stop_scraper
  QUERIES_ASKED=0
  edge query end "$type"
  rm -f -- "$ROUND_DIR/query/$type".warm.*
  end_phase "$CLIENT_EXIT" "$USER_S" "$SYSTEM_S" "$BEGIN" "$END" "$count" "$ATTEMPTS"
}

send() { # PREFIX FILE COUNT WORKERS [TSBS_FLAGS...]: to its end, or the round fails
  local -r prefix=$1
  shift
  for ATTEMPTS in 1 2 3; do
    run_client "$prefix" watch_query "$HERE/targets/$TARGET/query" "$1" "$2" "$3" "$prefix.json" "${@:4}"
    rm -f -- "$prefix.exit"
    ((CLIENT_EXIT == -1)) || break
    event note round "$ROUND" query_type "$QUERY_TYPE" message "run_queries hung at its start (a fault of the client): started again"
    tell WARNING "$ROUND $QUERY_TYPE: run_queries hung at its start (a fault of the client): started again"
  done
  server_is_alive
  ((CLIENT_EXIT != -1)) || fail "run_queries was started $ATTEMPTS times for $QUERY_TYPE, and each time neither it nor the server did anything; $(last_words)"
  ((CLIENT_EXIT == 0)) || fail "queries of $QUERY_TYPE ended with $(exit_words "$CLIENT_EXIT"): $(client_words "$prefix.stderr" "$prefix.stdout"); $(last_words)"
}

query_field() { # TYPE FIELD of raw/workload.json
  jq -r --arg type "$1" --arg field "$2" '.queries[] | select(.type == $type) | .[$field]' "$RUN_DIR/raw/workload.json"
}

choose_count() { # TYPE FILE WORKERS: sets count as planned, as calibrated, or in the warm-up block as a probe suggests
  # Not in a $(...): a probe can fail the round, and a signal has to reach us meanwhile.
  count=$P_QUERIES_COUNT
  if [[ -z $count && -e $RUN_DIR/raw/calibration.json ]]; then
    count=$(jq -r --arg type "$1" '.counts[$type]' "$RUN_DIR/raw/calibration.json")
  elif [[ -z $count ]]; then
    send "$ROUND_DIR/query/$1.probe" "$2" "$PROBE" "$3"
    rm -f -- "$ROUND_DIR/query/$1".probe.*
    count=$(awk -v n="$PROBE" -v s="$P_QUERIES_SECONDS" -v begin="$BEGIN" -v end="$END" -v max="$P_QUERIES_MAX_COUNT" \
      'BEGIN { n = int(n / (end - begin) * s); print (n < 20 ? 20 : (n > max ? max : n)) }')
  fi
}

restart_cold() {
  stop_server
  if [[ $P_HOST_DROP_CACHES == true ]]; then
    sync && echo 3 >/proc/sys/vm/drop_caches
  fi
  start_server
  # Its counters begin anew as well.
  LAST_PID=$SERVER_PID RESTARTS=$((${RESTARTS:-0} + 1)) QUERIES=0
}

phase_stop() {
  edge stop begin
  begin_phase stop
  stop_server
  end_phase 0
  adapter size >"$ROUND_DIR/sizes"
}
