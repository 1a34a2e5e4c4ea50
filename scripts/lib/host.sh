# What this machine is, and what on it is in the way of a run: for describe-host, the driver's own look and `make doctor`.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034
# Each `..._in_the_way` sets FINDING and REMEDY, and returns 0 where there is something.

# Tests have a /proc and a /sys of their own.
: "${TSDUEL_PROC:=/proc}" "${TSDUEL_SYS:=/sys}"
# What the rounds call; `make build` installs what is missing.
readonly RUN_TOOLS="jq zstd curl flock setsid gzip awk"

first_of() { # SED_SCRIPT FILE
  { sed -n "$1" "$2" 2>/dev/null || true; } | head -n 1
}

kib() { # NAME in /proc/meminfo, as bytes
  local name value
  while read -r name value _; do
    [[ $name != "$1:" ]] || echo $((value * 1024))
  done <"$TSDUEL_PROC/meminfo"
}

governors() { # of all CPUs, each once; nothing where the machine does not say
  local file value found=" "
  for file in "$TSDUEL_SYS"/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
    { read -r value <"$file"; } 2>/dev/null || continue
    [[ $found == *" $value "* ]] || found+="$value "
  done
  read -r found <<<"$found"
  printf '%s\n' "$found"
}

free_bytes() { # DIR
  df -B1 --output=avail -- "$1" | tail -n 1
}

tools_in_the_way() {
  local tool missing=""
  for tool in $RUN_TOOLS; do
    command -v "$tool" >/dev/null || missing+="${missing:+, }$tool"
  done
  FINDING="$missing missing" REMEDY="run 'make build', which installs it or says how"
  [[ -n $missing ]]
}

port_in_the_way() { # PORT
  FINDING="port $1 on 127.0.0.1 is in use by another program"
  REMEDY="stop it, or choose another with SET=\"host.port=$(($1 + 1000))\""
  port_is_open "$1"
}

disk_in_the_way() { # DIR BYTES WHAT_FOR
  local free
  free=$(free_bytes "$1")
  FINDING="$((free >> 20)) MiB are free in $1, and $3 need about $(($2 >> 20)) MiB"
  REMEDY="free some, or point TSDUEL_CACHE to a larger disk"
  ((free < $2))
}
