# How a run and its rounds begin and end, as events and as plain lines. Sourced by run-rounds.
# shellcheck shell=bash
# Needs RUN_DIR, and lib/tell.sh.

run_begins() { # all that somebody who watches needs to know of the plan, so that the events are enough
  local run kind blocks variants round_s workload_s place price rounds key value since=0
  local -i finished=0
  local record
  LOGGED=$(wc -l 2>/dev/null <"$RUN_DIR/run.log" || echo 0)
  IFS=$'\t' read -r run kind blocks variants round_s workload_s place price < <(plan '[.run, .kind, .design.blocks, (.variants | length),
    .duration.round_s // 0, .duration.workload_s // 0, .place.kind // "local", .place.price.hour // 0] | map(tostring) | join("\t")')
  rounds=$(awk -F '\t' 'NR > 1 && $4 != "spare"' "$RUN_DIR/plan/rounds.tsv" | wc -l)
  for record in "$RUN_DIR"/raw/*/round.json; do
    [[ ${record%/round.json} == *.partial ]] || finished+=1
  done
  # A rented machine is paid for since it began to run.
  while read -r key value _; do
    [[ $key != btime ]] || since=$value
  done </proc/stat
  event run-start run "$run" kind "$kind" blocks "$blocks" variants "$variants" rounds "$rounds" finished "$finished" \
    round_s "$round_s" workload_s "$workload_s" place "$place" price_h "$price" machine_since "$since"
  tell INFO "$run: $finished of $rounds rounds are finished"
}

run_ends() { # EXIT_CODE
  local status=failed message=""
  case $1 in
  0) status=ok ;;
  "$EXIT_INTERRUPTED") status=interrupted message=${ENDING:-interrupted} ;;
  # What a script of ours said last, of this run and not of an earlier one.
  *) message=$(tail -n "+$((${LOGGED:-0} + 1))" -- "$RUN_DIR/run.log" 2>/dev/null | sed -nE 's/^[^ ]+ ERROR +[^ ]+: //p' | tail -n 1 || true) ;;
  esac
  event run-end run "${RUN_DIR##*/}" kind "$(plan .kind)" status "$status" code "$1" message "$message"
  # The other ways to end have said so by themselves.
  (($1 != 0)) || tell INFO "all rounds are run"
}

round_begins() { # ROUND BLOCK POSITION VARIANT KIND QUERY_TYPES
  local phases=1
  local -a types
  IFS=, read -r -a types <<<"$6"
  if [[ $(plan .kind) == tsbs ]]; then
    # start, load, settle, responses and stop
    phases=$((5 + ${#types[@]}))
  elif [[ $5 != warmup ]]; then
    phases=$(jq --arg v "$4" '[.rows[] | select(.names[$v])] | length' "$RUN_DIR/raw/calibration.json")
  fi
  event round-start round "$1" block "$2" position "$3" variant "$4" kind "$5" phases "$phases"
  tell INFO "$1 begins ($5)"
}

round_ends() { # ROUND
  local -r directory=$RUN_DIR/raw/$1
  local -a of
  # Values with a NUL after each: a message may hold anything.
  mapfile -d '' -t of < <(jq -j '[.status, (.ended - .started | round | tostring), .failure.phase // "", .failure.query_type // "", .failure.message // "",
    (last(.phases[] | select(.phase == "load" and .end > .begin)) // null | if . then .count / (.end - .begin) | floor | tostring else "" end)]
    | map(. + "\u0000") | add' "$directory/round.json")
  local -r rate=${of[5]}
  event round-end round "$1" status "${of[0]}" seconds "${of[1]}" phase "${of[2]}" query_type "${of[3]}" rate "$rate" message "${of[4]}"
  if [[ ${of[0]} == ok ]]; then
    grouped "$rate"
    tell INFO "$1 ok in ${of[1]} s${rate:+, $REPLY samples/s}"
  else
    tell WARNING "$1 FAILED in ${of[2]}${of[3]:+ ${of[3]}} after ${of[1]} s: ${of[4]}"
  fi
}
