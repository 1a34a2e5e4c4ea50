# Who else is there: who has the port, how loaded the machine is, what its clock says of itself.
# shellcheck shell=bash
# Part of examine.sh; needs lib/{common,host}.sh and ASKED.

# Sources that the kernel reads without leaving user space, or nearly so.
readonly QUICK_CLOCKS="tsc kvm-clock arch_sys_counter hyperv_clocksource_tsc_page xen"

examine_port() {
  local -r port=${ASKED[port]:-}
  local pid
  [[ -n $port ]] || return 0
  if ! port_in_the_way "$port"; then
    line ok port "$port on 127.0.0.1 is free"
    return
  fi
  pid=$(listener "$port")
  if [[ -n $pid ]] && is_ours "$pid"; then
    line warning port "$port on 127.0.0.1 is used by a run of tsduel that is going on here" "wait for it, or end it: make stop"
  else
    line error port "$FINDING${pid:+ ($(name_of "$pid"), pid $pid)}" "$REMEDY"
  fi
}

listener() { # PORT on 127.0.0.1 or everywhere -> pid; nothing where we may not see it
  local inode found
  inode=$(awk -v port="$(printf ':%04X' "$1")" '$4 == "0A" && substr($2, length($2) - 4) == port { print $10; exit }' \
    "$TSDUEL_PROC/net/tcp" "$TSDUEL_PROC/net/tcp6" 2>/dev/null || true)
  [[ -n $inode ]] || return 0
  found=$(find "$TSDUEL_PROC"/[0-9]*/fd -lname "socket:\[$inode\]" -print -quit 2>/dev/null || true)
  found=${found#"$TSDUEL_PROC"/}
  printf '%s' "${found%%/*}"
}

is_ours() { # PID: everything that a round starts has its scratch directory in its environment
  grep -qz '^TSDUEL_SCRATCH=' "$TSDUEL_PROC/$1/environ" 2>/dev/null
}

name_of() { # PID
  local name="a process that has ended"
  { read -r name <"$TSDUEL_PROC/$1/comm"; } 2>/dev/null || true
  printf '%s' "$name"
}

examine_load() {
  local load
  read -r load _ <"$TSDUEL_PROC/loadavg"
  if ((${load/./} >= 50 * $(nproc))); then
    line warning load "$load processes ran or waited over the last minute, on $(nproc) CPUs" "see what else runs: make doctor"
  else
    line ok load "$load over the last minute"
  fi
}

examine_clock() {
  local source="" state
  { read -r source <"$TSDUEL_SYS/devices/system/clocksource/clocksource0/current_clocksource"; } 2>/dev/null || true
  if [[ -n $source && " $QUICK_CLOCKS " != *" $source "* ]]; then
    line warning clock-source "$source, which is slow to read" "see why not tsc: dmesg | grep -i -E 'tsc|clocksource'"
  fi
  # The kernel's own word, which no file has: adjtimex(2) that sets nothing; 5 is TIME_ERROR.
  state=$(python3 -c 'import ctypes; print(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256)))' 2>/dev/null || true)
  case $state in
  [0-4]) line ok clock "synchronised${source:+, source $source}" ;;
  5) line warning clock "nothing synchronises it${source:+ (source $source)}: it may be wrong, and be set while a round runs" \
    "let something steer it: systemd-timesyncd or chrony (on a container's host)" ;;
  *) line ok clock "whether it is synchronised cannot be seen here${source:+ (source $source)}" ;;
  esac
}
