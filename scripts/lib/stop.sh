# A run is asked to stop: after the round that is running, and when asked again, at once. Sourced by who asks and who obeys.
# shellcheck shell=bash
# Needs RUN_DIR. The request is a file there, so that it is the same wherever the rounds run, and looking costs nothing.

# Ending what a round has started takes seconds, and writing out a server's data may take a minute.
readonly STOP_S=120

stop_is_requested() {
  [[ -e $RUN_DIR/stop-requested ]]
}

forget_stop() {
  rm -f -- "$RUN_DIR/stop-requested"
}

round_under_way() { # -> REPLY, its name; false between rounds
  local -a found=("$RUN_DIR"/raw/[0-9]*.partial)
  ((${#found[@]})) || return 1
  REPLY=${found[0]##*/} REPLY=${REPLY%.partial}
}

stop_run() { # IS_RUNNING PID: ask the driver of this run to stop, or end it; IS_RUNNING says whether it is there. Prints what was done.
  local i
  if ! stop_is_requested && round_under_way; then
    : >"$RUN_DIR/stop-requested"
    event stop-requested round "$REPLY"
    printf 'after %s\n' "$REPLY"
    return
  fi
  # Between rounds nothing is lost by ending it at once.
  kill -TERM "$2" 2>/dev/null || true
  for ((i = 0; i < STOP_S * 10; i++)); do
    "$1" "$2" || break
    pause 0.1
  done
  if "$1" "$2"; then
    printf 'still there\n'
  else
    printf 'stopped\n'
  fi
}
