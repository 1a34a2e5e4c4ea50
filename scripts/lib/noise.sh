# What disturbs a measurement from outside: the host's counters at an edge of a phase, outside what is timed.
# shellcheck shell=bash
# Needs SERVER_PID, empty where there is no server.

# Tests have a /proc and a /sys of their own.
: "${TSDUEL_PROC:=/proc}" "${TSDUEL_SYS:=/sys}"

noise_edge() { # FILE: the counters at this moment, as JSON; lib/noise.jq takes the difference of two
  local key value rest cpu="" cpus=0 switches=0 swap_in=0 swap_out=0 uptime at server own
  read -r uptime _ <"$TSDUEL_PROC/uptime"
  at=$EPOCHREALTIME
  while read -r key value rest; do
    case $key in
    cpu) cpu="$value $rest" ;;
    cpu[0-9]*) cpus=$((cpus + 1)) ;;
    ctxt) switches=$value ;;
    esac
  done <"$TSDUEL_PROC/stat"
  cpu_ticks "$SERVER_PID"
  server=$REPLY
  # The client and all our scripts are our children; they have been waited for at either edge.
  cpu_ticks "$BASHPID" children
  own=$REPLY
  while read -r key value; do
    case $key in
    pswpin) swap_in=$value ;;
    pswpout) swap_out=$value ;;
    esac
  done <"$TSDUEL_PROC/vmstat"
  temperature
  printf '{"at": %s, "uptime_s": %s, "cpus": %d, "cpu": [%s], "server": %s, "own": %s, "kernel": {%s}, "context_switches": %s,
"swap_in": %s, "swap_out": %s, "pressure": {%s}, "temperature": %s}\n' "$at" "$uptime" "$cpus" "${cpu// /, }" "$server" "$own" \
    "$(kernel_threads)" "$switches" "$swap_in" "$swap_out" "$(pressure)" "$REPLY" >"$1"
}

cpu_ticks() { # PID [children]: -> REPLY, clock ticks of CPU so far, null where there is no such process
  local stat=""
  local -a field
  REPLY=null
  { read -r stat <"$TSDUEL_PROC/${1:-none}/stat"; } 2>/dev/null || return 0
  # The command name in parentheses may hold spaces: count fields after it.
  read -r -a field <<<"${stat##*) }"
  REPLY=$((field[11] + field[12]))
  [[ ${2:-} != children ]] || REPLY=$((REPLY + field[13] + field[14]))
}

kernel_threads() { # "PID": CLOCK_TICKS of each that has worked; they are known by PF_KTHREAD, since in a container pid 2 is anybody
  { cat "$TSDUEL_PROC"/[0-9]*/stat 2>/dev/null || true; } | awk '
    { pid = $1; sub(/^.*\) /, "") }
    int($7 / 2097152) % 2 && $12 + $13 > 0 { printf "%s\"%s\": %.0f", comma, pid, $12 + $13; comma = ", " }'
}

pressure() { # "RESOURCE": MICROSECONDS in which somebody waited for it
  local resource line comma=""
  for resource in cpu io memory; do
    # A kernel may have the file and refuse to read it (psi=0).
    { read -r line <"$TSDUEL_PROC/pressure/$resource"; } 2>/dev/null || continue
    printf '%s"%s": %s' "$comma" "$resource" "${line##*total=}"
    comma=", "
  done
}

temperature() { # -> REPLY, thousandths of a degree Celsius at the hottest sensor, null where there is none
  local file value
  REPLY=null
  for file in "$TSDUEL_SYS"/class/thermal/thermal_zone*/temp "$TSDUEL_SYS"/class/hwmon/hwmon*/temp*_input; do
    { read -r value <"$file"; } 2>/dev/null || continue
    if [[ $REPLY == null || $value -gt $REPLY ]]; then REPLY=$value; fi
  done
}

maintenance() { # what Google's metadata server says of the machine under this VM, once a round; nothing elsewhere
  local product=""
  { read -r product <"$TSDUEL_SYS/class/dmi/id/product_name"; } 2>/dev/null || true
  [[ $product == "Google Compute Engine" ]] || return 0
  # Its address, since a name would ask a resolver first.
  curl -fsS --noproxy '*' --max-time 1 -H 'Metadata-Flavor: Google' \
    http://169.254.169.254/computeMetadata/v1/instance/maintenance-event 2>/dev/null || true
}
