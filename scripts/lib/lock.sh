# Who measures on this machine: one run at a time, whoever started it and whatever its cache is. Needs no other file.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034
# The lock is the kernel's (flock), which gives it back when the process is gone, however it went. The text in the file
# is for people, and is believed only while the lock is held by the very process that it names, in this boot.
# /run/lock and /tmp are open to every user, and a kernel may refuse to create (O_CREAT) what another user has made there
# (fs.protected_regular), so the file is made at most once, and then opened without creating it.

lock_path() { # -> REPLY; TSDUEL_LOCK is for tests, which must not wait for each other
  if [[ -n ${TSDUEL_LOCK:-} ]]; then
    REPLY=$TSDUEL_LOCK
  elif [[ -k /run/lock ]]; then
    REPLY=/run/lock/tsduel.lock
  else
    REPLY=/tmp/tsduel.lock
  fi
}

began() { # PID -> when it began, in clock ticks since boot: with it a number is one process
  local stat
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
  read -r -a stat <<<"${stat##*) }"
  printf '%s' "${stat[19]}"
}

boot_id() {
  printf '%s' "$(</proc/sys/kernel/random/boot_id)"
}

is_process() { # PID TICKS BOOT: this process is there, and is no later one of the same number
  [[ $1 =~ ^[0-9]+$ && -n $2 && $2 == "$(began "$1")" && $3 == "$(boot_id)" ]]
}

open_lock() { # PATH: as descriptor 6, made for all users where it is not there
  if [[ ! -e $1 ]]; then (umask 0 && set -o noclobber && : >"$1") 2>/dev/null || true; fi
  if [[ -L $1 || ! -f $1 ]] || ! { exec 6<"$1"; } 2>/dev/null; then
    printf 'tsduel: %s, by which runs on this machine exclude each other, cannot be opened: see who made it, and remove it\n' "$1" >&2
    exit 2
  fi
}

take_host_lock() { # RUN_DIR: hold it as descriptor 6 until we are gone; false if another run has it
  lock_path
  local -r path=$REPLY
  open_lock "$path"
  # One who only looks holds it for an instant, and so does the last child of a driver that was killed.
  flock -n 6 || { [[ -z $(who_is_in "$path") ]] && flock -w 10 6; } || return 1
  # `dd`, since a redirection would create; without this text the lock is as good.
  printf 'pid %s, began %s, boot %s, user %s, since %s, %s\n' $$ "$(began $$)" "$(boot_id)" "$(id -un)" \
    "$(TZ=UTC printf '%(%Y-%m-%dT%H:%M:%SZ)T')" "$1" | dd of="$path" conv=nocreat status=none 2>/dev/null || true
}

who_is_in() { # PATH: `PID USER SINCE RUN_DIR` of the process that the text names, if it is there
  local text=""
  { text=$(<"$1"); } 2>/dev/null || true
  [[ $text =~ ^pid\ ([0-9]+),\ began\ ([0-9]+),\ boot\ ([0-9a-f-]+),\ user\ ([^,]*),\ since\ ([0-9TZ:-]+),\ (.*)$ ]] || return 0
  local -r pid=${BASH_REMATCH[1]} ticks=${BASH_REMATCH[2]} boot=${BASH_REMATCH[3]}
  local -r rest="${BASH_REMATCH[4]} ${BASH_REMATCH[5]} ${BASH_REMATCH[6]}"
  if is_process "$pid" "$ticks" "$boot"; then printf '%s %s\n' "$pid" "$rest"; fi
}

lock_holder() { # print who holds it as who_is_in does, `0 ? ? ?` if that is not known, nothing if nobody does
  local found
  lock_path
  [[ -e $REPLY ]] || return 0
  open_lock "$REPLY"
  # Shared, so that two who look do not see each other.
  if ! flock -s -n 6; then
    found=$(who_is_in "$REPLY")
    printf '%s\n' "${found:-0 ? ? ?}"
  fi
  exec 6<&-
}

taken_sentence() { # RUN_DIR COMMAND: why this run cannot go on now, and what to do
  local found pid user since run
  found=$(lock_holder)
  IFS=' ' read -r -d '' pid user since run <<<"$found" || true
  run=${run%$'\n'}
  if [[ ${pid:-0} == 0 ]]; then
    printf 'another run is going on on this machine, and nobody knows which; wait for it'
  elif [[ $run == "$1" ]]; then
    printf "this run is going on already: pid %s of user %s, since %s; look at it with 'make status RUN=%s', end it with 'make stop RUN=%s'" \
      "$pid" "$user" "$since" "${run##*/}" "${run##*/}"
    return
  else
    printf "another run is going on on this machine: pid %s of user %s, since %s, %s; wait for it, or end it with 'make stop RUN=%s' there" \
      "$pid" "$user" "$since" "$run" "${run##*/}"
  fi
  printf ', then: make %s RUN=%s' "$2" "${1##*/}"
}
