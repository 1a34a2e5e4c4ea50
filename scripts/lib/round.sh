# The parts of one round: the server, snapshots, clients, failure. Sourced by each kind of round.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034
# State: HERE RUN_DIR ROUND_DIR ROUND TARGET; SERVER_PID SCRAPER CLIENT ADAPTER; PHASE QUERY_TYPE FAILURE

adapter() { # COMMAND [ARGS...]: one executable of the database's directory
  "$HERE/targets/$TARGET/$1" "${@:2}"
}

long_adapter() { # the same for one that takes its time: bash acts on a signal while it waits, not in the foreground
  local code=0
  setsid "$HERE/targets/$TARGET/$1" "${@:2}" &
  ADAPTER=$!
  wait "$ADAPTER" || code=$?
  ADAPTER=""
  return "$code"
}

fail() { # SENTENCE: this round is over; what is known of it is kept
  FAILURE=$1
  exit "$EXIT_FAILED"
}

start_server() {
  local -r deadline=$((SECONDS + P_WATCHDOG_HEALTH_S))
  if port_is_open "$DB_PORT"; then
    fail "port $DB_PORT on 127.0.0.1 is in use by another program; stop it, or choose another with SET=\"host.port=...\""
  fi
  adapter start
  read -r SERVER_PID <"$DB_PID_FILE"
  until adapter check; do
    server_is_alive
    ((SECONDS < deadline)) || fail "the server did not become healthy within $P_WATCHDOG_HEALTH_S s: $(last_words)"
    pause 0.1
  done
}

server_is_alive() {
  is_alive "$SERVER_PID" || fail "the server (pid $SERVER_PID) died: $(last_words)$(want_of_memory)"
}

stop_server() {
  server_is_alive
  long_adapter stop || fail "the server (pid $SERVER_PID) had to be killed: it did not stop within $DB_STOP_S s; $(last_words)"
  SERVER_PID=""
}

edge() { # PHASE begin|end [QUERY_TYPE]: one full snapshot, the kernel's part at this very moment
  local -r file=$ROUND_DIR/metrics.prom
  {
    printf '# snapshot %s edge %s\n' "$EPOCHREALTIME" "$*"
    process_lines
    host_lines
  } >"$file.edge"
  # The server renders /metrics at most once a second: what it says at an end must not be older than the phase. Not
  # from the last snapshot's own clock: on a busy machine its answer may have come seconds later.
  if [[ $2 == end && -e $file ]]; then wait_until "$(stat -c %.6Y -- "$file")" 1050000; fi
  metrics_body cat >>"$file.edge"
  cat -- "$file.edge" >>"$file"
  rm -- "$file.edge"
}

wait_until() { # EPOCH MICROSECONDS: that long after that moment
  local -r left=$((${1/./} + $2 - ${EPOCHREALTIME/./}))
  ((left <= 0)) || pause "$((left / 1000000)).$(printf '%06d' $((left % 1000000)))"
}

start_scraper() { # and what the host has counted so far; both stop together, around what is timed
  noise_edge "$ROUND_DIR/noise.begin"
  "$HERE/scrape-metrics" "$ROUND_DIR/metrics.prom" "$SERVER_PID" "$DB_PORT" &
  SCRAPER=$!
}

stop_scraper() {
  [[ -n $SCRAPER ]] || return 0
  kill -TERM "$SCRAPER" 2>/dev/null || true
  # Ended by a signal (a round that is ended may do that), it has not failed; a disk that is full has.
  wait "$SCRAPER" || SCRAPE_EXIT=$(($? < 128 ? $? : 0))
  SCRAPER=""
  noise_edge "$ROUND_DIR/noise.end"
}

run_client() { # PREFIX WATCH COMMAND...: run it watched; sets CLIENT_EXIT USER_S SYSTEM_S BEGIN END
  local -r prefix=$1 watch=$2
  local turns=0
  shift 2
  # A session of its own, so that the client and its children can be ended as one group.
  setsid "$HERE/run-client" "$prefix" "$@" &
  CLIENT=$!
  PROGRESS="" PROGRESS_AT=$SECONDS
  while is_alive "$CLIENT"; do
    pause 0.2
    ((++turns % 5 == 0)) || continue
    server_is_alive
    "$watch" "$prefix" || break
  done
  end_client
  # -1: it was ended by us, and nobody measured it.
  CLIENT_EXIT=-1 USER_S=0 SYSTEM_S=0 BEGIN=$EPOCHREALTIME END=$EPOCHREALTIME
  [[ ! -e $prefix.exit ]] || read -r CLIENT_EXIT USER_S SYSTEM_S BEGIN END <"$prefix.exit"
}

end_client() {
  end_session "$CLIENT"
  CLIENT=""
}

end_session() { # PID of a child that `setsid` started, with all it started; nothing if empty
  [[ -n $1 ]] || return 0
  # Until it has become the leader of its session there is no group of that number: try again.
  while ! kill -KILL -- "-$1" 2>/dev/null && is_alive "$1"; do pause 0.02; done
  wait "$1" 2>/dev/null || true
}

end_server() { # at once: what it stored is not needed any more
  [[ -n $SERVER_PID ]] || return 0
  kill -KILL "$SERVER_PID" 2>/dev/null || true
  while is_alive "$SERVER_PID"; do pause 0.05; done
  rm -f -- "$DB_PID_FILE"
}
