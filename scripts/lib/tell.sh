# What a run says of itself as it goes: events, and for each the plain line that tsduel/rounds/view/lines.py makes of it elsewhere.
# shellcheck shell=bash
# Needs RUN_DIR. Where a screen shows the events (TSDUEL_SCREEN), the lines are for run.log alone.

# A look every second is enough to watch, and an event every two seconds to see it move.
readonly PROGRESS_US=2000000

tell() { # LEVEL TEXT: of the last event
  log "$1" "$2"
  if [[ -z ${TSDUEL_SCREEN:-} ]]; then
    TZ=UTC printf '%(%H:%M:%S)T %s\n' "${EVENT_AT%.*}" "${2//[[:cntrl:]]/ }" || true
  fi
}

grouped() { # NUMBER -> REPLY, with thousands apart
  REPLY=$1
  while [[ $REPLY =~ ^([0-9]+)([0-9]{3}(,.*)?)$ ]]; do REPLY=${BASH_REMATCH[1]},${BASH_REMATCH[2]}; done
}

phase_ends() { # ROUND (empty while the data is made) PHASE QUERY_TYPE EXIT BEGIN END COUNT
  local -r us=$((${6/./} - ${5/./})) what="${1:+$1 }$2${3:+ $3}"
  local rate="" unit="" seconds
  printf -v seconds '%d.%d' $((us / 1000000)) $((us / 100000 % 10))
  case $2 in
  load) unit=samples/s ;;
  query) unit=queries/s ;;
  data) unit=lines/s ;;
  esac
  if [[ $unit != "" && $7 -gt 0 && $us -gt 0 ]]; then
    rate=$(($7 * 10000000 / us))
    if ((rate >= 1000)); then rate=$((rate / 10)); else rate=$((rate / 10)).$((rate % 10)); fi
  fi
  event phase-end round "$1" phase "$2" query_type "$3" exit "$4" seconds "$seconds" count "$7" rate "$rate"
  if (($4 != 0)); then
    tell WARNING "$what ended with exit code $4 after $seconds s"
  else
    grouped "$rate"
    tell INFO "$what $seconds s${rate:+, $REPLY $unit}"
  fi
}

show_progress() { # PHASE DONE TOTAL: for whoever watches; while a phase is timed, so builtins only and no event(), which is jq
  local -r now=${EPOCHREALTIME/./}
  ((now >= ${PROGRESS_NEXT:-0})) && [[ $2 =~ ^[0-9]+(\.[0-9]+)?(E\+[0-9]+)?$ ]] || return 0
  PROGRESS_NEXT=$((now + PROGRESS_US))
  printf '{"t":%s,"event":"progress","phase":"%s","done":%s,"total":%s}\n' "$EPOCHREALTIME" "$1" "$2" "$3" >>"$RUN_DIR/raw/events.jsonl" || true
}
