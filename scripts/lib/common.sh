# Sourced by every script on the measured host: strict mode, messages, the plan, the event log.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034

set -Eeuo pipefail
shopt -s inherit_errexit nullglob
# Decimal points in EPOCHREALTIME and printf, and bytewise sorting.
export LC_ALL=C
# All that a round speaks to is 127.0.0.1; curl would ask a machine's proxy for it.
export no_proxy='*' NO_PROXY='*'

# Exit codes, as in docs/operating.md.
readonly EXIT_USER=2 EXIT_FAILED=3 EXIT_INTERRUPTED=130

note() { # a reader who is gone must not end us
  log INFO "$*"
  printf '%s\n' "$*" >&2 || true
}

complain() { # SENTENCE
  log ERROR "$1"
  printf 'tsduel: %s\n' "$1" >&2 || true
}

die() { # CODE SENTENCE
  complain "$2"
  exit "$1"
}

log() { # LEVEL TEXT: one line of run.log, which all stages of a run share; what cannot be logged is no reason to end
  [[ -n ${RUN_DIR:-} && -d $RUN_DIR ]] || return 0
  { TZ=UTC printf '%(%Y-%m-%dT%H:%M:%SZ)T %-7s %s: %s\n' -1 "$1" "${0##*/}" "${2//[[:cntrl:]]/ }" >>"$RUN_DIR/run.log"; } 2>/dev/null || true
}

plan() { # JQ_FILTER: a value of the plan, raw
  jq -r "$1" "$RUN_DIR/plan/experiment.json"
}

read_plan() { # SECTION...: every plain value of these sections, as P_SECTION_FIELD; one jq for all of them
  local name value
  while IFS='' read -r -d '' name && IFS='' read -r -d '' value; do
    printf -v "P_$name" '%s' "$value"
  done < <(jq -j --args '. as $plan | $ARGS.positional[] as $section | $plan[$section] | to_entries[]
    | select(.value | type | IN("string", "number", "boolean", "null"))
    | ("\($section)_\(.key)" | ascii_upcase) + "\u0000" + (.value // "" | tostring) + "\u0000"' \
    "$@" <"$RUN_DIR/plan/experiment.json")
}

event() { # EVENT [FIELD VALUE...]: one line in the run's append-only log, a single write of at most 4096 bytes; values become strings
  local name=$1
  shift
  local -a args=()
  while (($# >= 2)); do
    args+=(--arg "$1" "${2:0:1500}")
    shift 2
  done
  EVENT_AT=$EPOCHREALTIME
  jq -nc "${args[@]}" --arg event "$name" --argjson t "$EVENT_AT" \
    '{t: $t, event: $event} + ($ARGS.named | del(.t, .event))' >>"$RUN_DIR/raw/events.jsonl"
}

pause() { # SECONDS: sleep without starting a process
  # A descriptor that never has data; opened once.
  [[ -v PAUSE_FD ]] || exec {PAUSE_FD}<> <(:)
  read -r -t "$1" -u "$PAUSE_FD" || true
}

port_is_open() { # PORT on 127.0.0.1
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

is_alive() { # PID: running, and not a zombie that nobody has collected
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  [[ ${stat##*) } != Z* ]]
}
