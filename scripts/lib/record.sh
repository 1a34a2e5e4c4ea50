# What a round says of itself: its phases as they end, and round.json. Sourced by each kind of round.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034
# State: HERE RUN_DIR ROUND_DIR ROUND BLOCK POSITION VARIANT KIND STARTED; PHASE QUERY_TYPE FAILURE

begin_phase() { # NAME [QUERY_TYPE]
  PHASE=$1 QUERY_TYPE=${2:-} PHASE_BEGIN=$EPOCHREALTIME
  event phase-start round "$ROUND" phase "$PHASE" query_type "$QUERY_TYPE"
}

end_phase() { # EXIT [USER_S SYSTEM_S BEGIN END COUNT ATTEMPTS]: one line of round.json's list
  local -r now=${5:-$EPOCHREALTIME}
  jq -nc -L "$HERE/lib" --arg phase "$PHASE" --arg type "$QUERY_TYPE" --argjson exit "$1" --argjson user "${2:-0}" \
    --argjson system "${3:-0}" --argjson from "${4:-$PHASE_BEGIN}" --argjson to "$now" \
    --argjson count "${6:-0}" --argjson attempts "${7:-1}" \
    --slurpfile before "$(existing "$ROUND_DIR/noise.begin")" --slurpfile after "$(existing "$ROUND_DIR/noise.end")" \
    'include "noise"; {phase: $phase, query_type: $type, begin: $from, end: $to, exit: $exit, client_user_s: $user,
      client_system_s: $system, count: $count, attempts: $attempts}
      + (noise($before[0]; $after[0]) | if . then {noise: .} else {} end)' >>"$ROUND_DIR/phases.jsonl"
  rm -f -- "$ROUND_DIR"/noise.{begin,end}
  phase_ends "$ROUND" "$PHASE" "$QUERY_TYPE" "$1" "${4:-$PHASE_BEGIN}" "$now" "${6:-0}"
}

existing() { # FILE, or one that is empty
  if [[ -e $1 ]]; then printf '%s' "$1"; else printf /dev/null; fi
}

write_round() {
  noise_edge "$ROUND_DIR/noise.end"
  jq -n -L "$HERE/lib" --argjson block "$BLOCK" --argjson position "$POSITION" --arg variant "$VARIANT" --arg kind "$KIND" \
    --arg phase "$PHASE" --arg type "$QUERY_TYPE" --arg failure "$FAILURE" --argjson started "$STARTED" --argjson ended "$EPOCHREALTIME" \
    --arg boot_id "$(<"$TSDUEL_PROC/sys/kernel/random/boot_id")" --argjson pid "${FIRST_PID:-0}" --argjson pid_end "${LAST_PID:-0}" \
    --argjson restarts "${RESTARTS:-0}" --slurpfile phases "$(existing "$ROUND_DIR/phases.jsonl")" --arg maintenance "$(maintenance)" \
    --slurpfile before "$(existing "$ROUND_DIR/noise.round")" --slurpfile after "$ROUND_DIR/noise.end" \
    --slurpfile canary "$(existing "$ROUND_DIR/canary.json")" --rawfile sizes "$(existing "$ROUND_DIR/sizes")" 'include "noise";
    {block: $block, position: $position, variant: $variant, kind: $kind,
     status: (if $failure == "" then "ok" else "failed" end),
     failure: (if $failure == "" then null else {phase: $phase, query_type: $type, message: $failure} end),
     started: $started, ended: $ended, boot_id: $boot_id, server_pid: $pid, server_pid_end: $pid_end,
     restarts: $restarts, phases: $phases, canary: ($canary[0] // {}), maintenance: $maintenance,
     noise: (noise($before[0]; $after[0]) | if . then del(.server_s, .foreign_s) else {} end),
     sizes: ($sizes | split("\n") | map(select(. != "") | split(" ") | {(.[0]): (.[1] | tonumber)}) | add // {})}' \
    >"$ROUND_DIR/round.json" || return 1
  rm -f -- "$ROUND_DIR"/{sizes,phases.jsonl,canary.json,noise.round,noise.begin,noise.end}
}

publish_round() { # false if it cannot be written. All of it is on the disk before it gets its name, which marks it as finished
  # With a number, since in a trap `return` alone gives the status from before it.
  write_round || return 1
  [[ ! -e $ROUND_DIR/metrics.prom ]] || gzip -qnf -- "$ROUND_DIR/metrics.prom" || return 1
  sync -f "$ROUND_DIR" && mv -T -- "$ROUND_DIR" "$RUN_DIR/raw/$ROUND" && sync -- "$RUN_DIR/raw"
}

step_failed() { # -> FAILURE, of what ended with code $1 without a sentence; the code as REPLY
  REPLY=$1
  [[ -z $FAILURE && $1 != "$EXIT_INTERRUPTED" ]] || return 0
  # What ends a whole process group may have hit a step of ours before us.
  trap 'REPLY=$EXIT_INTERRUPTED' INT TERM HUP
  pause 0.5
  trap '' INT TERM HUP
  FAILED_STEP=${FAILED_STEP%%$'\n'*}
  FAILURE="a step of ours ended with exit code $1${FAILED_STEP:+: ${FAILED_STEP::200}}"
}

leave_full_disk() { # end here if a disk is full: nothing is published, and the round is run again
  say_if_full || return 0
  rm -rf -- "$ROUND_DIR"
  exit "$EXIT_USER"
}
