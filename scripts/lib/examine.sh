# What `make doctor` asks of the machine where the rounds run: lines of level, what, finding and remedy, with tabs between.
# shellcheck shell=bash
# Sourced by examine-host, and sent to another machine behind lib/{common,host,noise,others,sample}.sh. Changes nothing; forks little.
# ASKED has: mode (fast, full), dir, port, disk_mib, memory_mib, and the limits steal_pct, steal_flag_pct, foreign_cpu_flag_pct, clock_step_s.

line() { # LEVEL WHAT FINDING [REMEDY]
  local text
  printf '%s' "$1"
  for text in "${@:2:3}"; do
    # What a stranger has named must not become a line or a column.
    printf '\t%s' "${text//[[:cntrl:]]/ }"
  done
  printf '\n'
}

examine() { # NAME=VALUE...
  local word
  declare -gA ASKED=()
  for word; do ASKED["${word%%=*}"]=${word#*=}; done
  examine_tools
  examine_cpus
  examine_memory
  examine_disk
  examine_port
  if [[ ${ASKED[mode]} == fast ]]; then
    examine_load
  else
    examine_clock
    # Last, since what we do ourselves would be in it.
    sample_machine
  fi
}

examine_tools() {
  local tool version found=""
  if tools_in_the_way; then
    line warning tools "$FINDING" "$REMEDY"
    return
  fi
  if [[ ${ASKED[mode]} == full ]]; then
    for tool in $RUN_TOOLS; do
      version=$("$tool" --version 2>/dev/null </dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1 || true)
      found+="${found:+, }$tool${version:+ $version}"
    done
  fi
  line ok tools "${found:-all there}, bash $BASH_VERSION"
}

examine_cpus() {
  local model cpus governors quota period
  cpus=$(nproc)
  model=$(first_of 's/^model name[^:]*: //p' "$TSDUEL_PROC/cpuinfo")
  if { read -r quota period <"$TSDUEL_SYS/fs/cgroup/cpu.max"; } 2>/dev/null && [[ $quota != max ]] && ((quota < period * cpus)); then
    line warning cpu "$cpus CPUs (${model:-unknown}), but this container may use $((100 * quota / period)) % of one" \
      "it is stopped for the rest of every $((period / 1000)) ms, which shows in every figure: start it without a CPU limit"
  else
    line ok cpu "$cpus CPUs (${model:-unknown})"
  fi
  governors=$(governors)
  case $governors in
  "") line ok governor "cannot be seen here: the host decides, as on most virtual machines" ;;
  performance) line ok governor performance ;;
  *) line warning governor "${governors// /, }: the clock rate follows the load, and the figures follow the clock rate" \
    "until the next start: echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor" ;;
  esac
}

examine_memory() {
  local total available swap needed=$((${ASKED[memory_mib]:-0} << 20))
  total=$(kib MemTotal) available=$(kib MemAvailable) swap=$(kib SwapTotal)
  local -r said="$((available >> 20)) of $((total >> 20)) MiB are available"
  if ((available < needed)); then
    line warning memory "$said, and the server will need roughly $((needed >> 20)) MiB" "end what takes it ('ps aux --sort=-rss'), or make workload.scale smaller"
  elif ((available < total / 2)); then
    line warning memory "$said: other programs take the rest, and the page cache with it" "end what takes it: 'ps aux --sort=-rss' says what"
  else
    line ok memory "$said"
  fi
  if ((swap > 0)); then
    line warning swap "$((swap >> 20)) MiB of swap are on: what is swapped out shows as a slow query" "until the next start: sudo swapoff -a"
  fi
}

examine_disk() { # of the nearest directory that is there: the rest we make
  local dir=${ASKED[dir]} kind
  while [[ ! -d $dir && $dir == */* ]]; do dir=${dir%/*}; done
  dir=${dir:-/}
  kind=$(df --output=fstype -- "$dir" | tail -n 1)
  if [[ ! -w $dir ]]; then
    line error disk "$dir cannot be written to by $(id -un)" "give a directory of yours: TSDUEL_CACHE= here, REMOTE_DIR= elsewhere"
  elif disk_in_the_way "$dir" $((${ASKED[disk_mib]:-0} << 20)) "data, database and results"; then
    line error disk "$FINDING" "$REMEDY"
  elif [[ $kind =~ ^(tmpfs|ramfs|nfs4?|cifs|smb3|9p|virtiofs|fuse\..*)$ ]]; then
    line warning disk "$(($(free_bytes "$dir") >> 20)) MiB are free in $dir, which is on $kind: not a disk of this machine" \
      "point TSDUEL_CACHE (REMOTE_DIR= elsewhere) to the disk that you want to measure"
  else
    line ok disk "$(($(free_bytes "$dir") >> 20)) MiB are free in $dir ($kind)"
  fi
}
