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
  printf '%s\n' "$*" >&2 || true
}

die() { # CODE SENTENCE
  note "tsduel: $2"
  exit "$1"
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

event() { # EVENT [JQ_ARGS...]: one line in the run's append-only log; arguments become string fields
  local name=$1
  shift
  local -a args=()
  while (($# >= 2)); do
    args+=(--arg "$1" "$2")
    shift 2
  done
  jq -nc "${args[@]}" --arg event "$name" --argjson t "$EPOCHREALTIME" \
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
