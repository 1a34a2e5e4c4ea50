# How the rounds of a run come to be a process that outlives the connection, and how it is known again.
# shellcheck shell=bash

launch() { # a unit of its own where there is systemd, a session of its own elsewhere: neither ends with the connection
  local -a command=("$HERE/detached" rounds "$RUN_DIR" "$TSDUEL_CACHE") root=()
  ((EUID == 0)) || root=(sudo -n)
  if "${root[@]}" true 2>/dev/null; then
    # Every run finds the disk and the page cache alike. A container may not; what was done is in the log.
    { "${root[@]}" fstrim -v -- "$TSDUEL_CACHE" && sync && "${root[@]}" sysctl -q vm.drop_caches=3; } >>"$CONTROL/log" 2>&1 || true
    if [[ -d /run/systemd/system ]]; then
      "${root[@]}" systemd-run --quiet --collect --unit="tsduel-${RUN_DIR##*/}" --uid="$(id -u)" --gid="$(id -g)" \
        --property=KillMode=mixed --property=TimeoutStopSec=120 -- "${command[@]}" 7>&-
      return
    fi
  fi
  setsid --fork "${command[@]}" </dev/null >>"$CONTROL/log" 2>&1 7>&-
}

is_running() {
  local pid="" ticks="" boot=""
  { read -r pid ticks boot <"$CONTROL/pid"; } 2>/dev/null || return 1
  is_alive "$pid" && is_process "$pid" "$ticks" "$boot"
}

end_code() { # what the rounds ended with; false if they did not say, as after a power cut
  local code=""
  { read -r code <"$CONTROL/exit"; } 2>/dev/null
  [[ $code =~ ^[0-9]+$ ]] && printf '%d' "$code"
}
