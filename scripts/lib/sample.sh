# What the machine does over some seconds in which we do nothing: steal, steps of the clock, busy processes.
# shellcheck shell=bash
# Part of examine.sh, as lib/others.sh is.

: "${TSDUEL_SAMPLE_S:=3}"
# Processes that are named, at most.
readonly MOST_NAMES=5

look() { # -> TICKS[pid] of all but kernel threads and us, STEAL, UPTIME and AT, all in hundredths of a second
  local file stat pid key rest
  local -a field
  TICKS=() STEAL=0
  read -r UPTIME _ <"$TSDUEL_PROC/uptime"
  UPTIME=${UPTIME/./} AT=$((${EPOCHREALTIME/./} / 10000))
  while read -r key rest; do
    [[ $key == cpu ]] || continue
    read -r -a field <<<"$rest"
    STEAL=${field[7]:-0}
  done <"$TSDUEL_PROC/stat"
  for file in "$TSDUEL_PROC"/[0-9]*/stat; do
    { read -r stat <"$file"; } 2>/dev/null || continue
    pid=${file%/stat} pid=${pid##*/}
    read -r -a field <<<"${stat##*) }"
    # PF_KTHREAD: those mostly write back what others wrote.
    ((pid == BASHPID || field[6] / 2097152 % 2)) || TICKS[pid]=$((field[11] + field[12]))
  done
}

sample_machine() {
  local pid STEAL UPTIME AT
  local -a TICKS=() before=()
  look
  local -r steal=$STEAL uptime=$UPTIME at=$AT
  for pid in "${!TICKS[@]}"; do before[pid]=${TICKS[pid]}; done
  pause "$TSDUEL_SAMPLE_S"
  look
  local -r hundredths=$((AT - at)) cpus=$(nproc)
  report_step $((AT - at - (10#$UPTIME - 10#$uptime)))
  report_steal $((1000 * (STEAL - steal) / (hundredths * cpus)))
  for pid in "${!TICKS[@]}"; do
    # One that was not there before has worked since it began.
    TICKS[pid]=$((TICKS[pid] - ${before[pid]:-0}))
  done
  report_busy "$hundredths" "$cpus"
}

report_step() { # HUNDREDTHS of a second by which the clock and the time since boot have parted
  local -r size=${1#-}
  if ((size * 10 >= $(thousandths "${ASKED[clock_step_s]:-1000000}"))); then
    line warning clock-step "the clock was set by ${1%"$size"}$((size / 100)).$(printf '%02d' $((size % 100))) s while we looked" \
      "let it settle: what sets it has to slew it, and not step it, while rounds run"
  else
    line ok clock-step "none in $TSDUEL_SAMPLE_S s"
  fi
}

report_steal() { # TENTHS of a percent of the machine
  local -r said="$(tenths "$1") % of the machine was taken by other guests of the host over $TSDUEL_SAMPLE_S s"
  if (($1 * 100 >= $(thousandths "${ASKED[steal_pct]:-1000}"))); then
    line warning steal "$said: that spoils blocks (noise.steal_pct)" "another time, or a machine with CPUs of its own"
  elif (($1 * 100 >= $(thousandths "${ASKED[steal_flag_pct]:-1000}"))); then
    line warning steal "$said: it will be flagged (noise.steal_flag_pct)" "another time, or a machine with CPUs of its own"
  else
    line ok steal "$said"
  fi
}

report_busy() { # HUNDREDTHS CPUS; TICKS are what each process has worked in that time
  local pid worst total=0 shown=0 names=""
  for pid in "${!TICKS[@]}"; do total=$((total + TICKS[pid])); done
  local -r share=$((1000 * total / ($1 * $2)))
  while ((shown++ < MOST_NAMES)); do
    worst=""
    for pid in "${!TICKS[@]}"; do
      if [[ -z $worst ]] || ((TICKS[pid] > TICKS[worst])); then worst=$pid; fi
    done
    # Under 2 % of one CPU nobody is to blame.
    if [[ -z $worst ]] || ((TICKS[worst] * 50 < $1)); then break; fi
    names+="${names:+, }$(name_of "$worst") (pid $worst, $((100 * TICKS[worst] / $1)) % of a CPU$(! is_ours "$worst" || printf ', a round of tsduel'))"
    unset "TICKS[worst]"
  done
  if ((share * 100 >= $(thousandths "${ASKED[foreign_cpu_flag_pct]:-1000}"))); then
    line warning processes "other programs take $(tenths "$share") % of the machine: ${names:-many small ones}" "end them, or wait until they are done"
  else
    line ok processes "others take $(tenths "$share") % of the machine over $TSDUEL_SAMPLE_S s${names:+: $names}"
  fi
}

tenths() { # 52 -> 5.2
  printf '%d.%d' $(($1 / 10)) $(($1 % 10))
}

thousandths() { # 0.2 -> 200
  local whole=${1%%.*} part=0
  [[ $1 != *.* ]] || part=${1#*.}000
  printf '%d' $((10#${whole:-0} * 1000 + 10#${part:0:3}))
}
