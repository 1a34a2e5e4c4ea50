# What the driver of a run needs beside its loop: lock, strays, host, calibration, the way out.
# shellcheck shell=bash

one_at_a_time() { # on this machine, and with this cache: who has that may end what has its scratch directory in its environment
  local -r lock=$TSDUEL_CACHE/run.lock
  take_host_lock "$RUN_DIR" || die "$EXIT_USER" "$(taken_sentence "$RUN_DIR" "$(plan .kind)")"
  exec 9>>"$lock"
  flock -w 10 9 || die "$EXIT_USER" "another run is going on with this cache: $(<"$lock"); wait for it, or stop it with kill"
  LOCKED=1
  printf 'pid %s, %s, since %s\n' $$ "$RUN_DIR" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >"$lock"
}

end_strays() { # whatever is left of a round: all its processes have our directory in their environment
  local environ pid
  # Before there is a grep, whose environment has it, too; one for all, since a run that goes on waits for this.
  local -a environs=(/proc/[0-9]*/environ)
  while IFS='' read -r environ; do
    pid=${environ//[!0-9]/}
    [[ $pid != "$$" && $pid != "$BASHPID" ]] || continue
    note "ending what an interrupted round left behind: $(command_line "$pid") (pid $pid)"
    kill -KILL "$pid" 2>/dev/null || true
    while is_alive "$pid"; do pause 0.05; done
  done < <(grep -lzxF -- "TSDUEL_SCRATCH=$TSDUEL_SCRATCH" "${environs[@]}" 2>/dev/null || true)
}

command_line() { # PID
  { tr '\0' ' ' <"/proc/$1/cmdline" | cut -c 1-80; } 2>/dev/null || true
}

check_host() { # before anything is measured
  local port why
  ! tools_in_the_way || die "$EXIT_USER" "$FINDING: $REMEDY"
  port=$(plan .host.port)
  # Go benchmarks have none.
  if [[ $port != null ]] && port_in_the_way "$port"; then die "$EXIT_USER" "$FINDING; $REMEDY"; fi
  for why in "$(why_not_ours "$TSDUEL_SCRATCH/data")" "$(why_not_ours "$TSDUEL_SCRATCH/bench")"; do
    [[ -z $why ]] || die "$EXIT_USER" "$why"
  done
  check_built
  check_disk
}

check_built() {
  local variant binary
  while read -r variant; do
    binary=$(jq -r .binary "$RUN_DIR/build/$variant.json" 2>/dev/null || true)
    [[ -x $binary ]] || die "$EXIT_USER" "$variant is not built: run 'make build RUN=${RUN_DIR##*/}'"
  done < <(plan '.variants[].name')
}

check_disk() { # data and queries are estimated by make-workload, where they are made
  local -r needed=$(plan '.estimate.database_bytes + .estimate.results_bytes')
  ! disk_in_the_way "$TSDUEL_SCRATCH" "$needed" "the database and the results" || die "$EXIT_USER" "$FINDING: $REMEDY"
}

calibrate() { # once, after the warm-up block: the count that fills queries.seconds for the fastest variant, or of Go benchmarks theirs
  [[ ! -e $RUN_DIR/raw/calibration.json ]] || return 0
  if [[ $(plan .kind) == gobench ]]; then
    "$HERE/calibrate-gobench" "$RUN_DIR"
    return
  fi
  [[ $(plan .queries.count) == null ]] || return 0
  local -a warm=("$RUN_DIR"/raw/00-*/round.json)
  jq -s --argjson seconds "$(plan .queries.seconds)" --argjson max "$(plan .queries.max_count)" '
    [.[].phases[] | select(.phase == "query")] | group_by(.query_type)
    | map({key: .[0].query_type,
           value: (map(.count / (.end - .begin)) | max * $seconds / 10 | ceil * 10 | if . < 20 then 20 elif . > $max then $max else . end)})
    | {counts: from_entries}' "${warm[@]}" /dev/null >"$RUN_DIR/raw/calibration.json.partial"
  jq -e --argjson types "$(plan '[.queries.types[].name]')" '.counts | keys == ($types | sort)' "$RUN_DIR/raw/calibration.json.partial" >/dev/null ||
    die "$EXIT_FAILED" "the warm-up block did not get through every query type, so no count could be chosen: see $RUN_DIR/raw/00-*/round.json, or set queries.count"
  keep "$RUN_DIR/raw/calibration.json"
}

not_too_many_failed() {
  local -r limit=$(plan .design.max_failed_rounds)
  if (($(failed_rounds) > limit)); then
    die "$EXIT_FAILED" "$(failed_rounds) rounds have failed (design.max_failed_rounds is $limit): the run stops here; what failed is in $RUN_DIR/raw/*/round.json"
  fi
}

failed_rounds() {
  local -a rounds=("$RUN_DIR"/raw/[0-9]*/round.json)
  ((${#rounds[@]})) || { echo 0 && return; }
  jq -rs 'map(select(.status == "failed")) | length' "${rounds[@]}"
}

leave() {
  local code=$?
  trap '' INT TERM HUP PIPE
  # Not by the code alone: rounds that a signal ended came here with 2 and with 0, and why was not found.
  ((INTERRUPTED == 0 && (code != 0 || WHOLE))) || code=$EXIT_INTERRUPTED
  if [[ -n $CHILD ]]; then
    kill -TERM "$CHILD" 2>/dev/null || true
    wait "$CHILD" || true
  fi
  # Without the lock, what runs here is another run's. A round that was killed could not clean up after itself.
  ((LOCKED)) || exit "$code"
  ((code == 0)) || end_strays
  if ((code != 0 && code != EXIT_INTERRUPTED && FULL == 0)) && say_if_full; then code=$EXIT_USER; fi
  # A full disk must not keep the sentence back.
  ((code == 0)) || run_ends "$code" || true
  if ((code == EXIT_INTERRUPTED)); then
    note "$ENDING; finished rounds are kept. To go on: make $(plan .kind) RUN=${RUN_DIR##*/}"
  fi
  forget_stop
  exit "$code"
}
