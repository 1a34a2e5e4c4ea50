# What counts as progress of a client, looked at once a second while it runs; builtins only where it is timed.
# shellcheck shell=bash
# Each is called with the client's file prefix; `fail` ends the round, a false result ends the client alone.

# After how many idle seconds without a connection run_queries is taken to hang.
readonly HANG_S=5

progress() { # VALUE: remember it; true while it has changed within the last STALL_S seconds
  if [[ $1 != "$PROGRESS" ]]; then
    PROGRESS=$1 PROGRESS_AT=$SECONDS
  fi
  ((SECONDS - PROGRESS_AT < STALL_S))
}

watch_load() { # the loader retries for ever, so a total that stands still is the only sign
  local -a lines=()
  local total="" status
  mapfile -t lines <"$1.stdout"
  ((${#lines[@]} == 0)) || total=${lines[-1]}
  # time, rate, total, ...: the third field is the samples acknowledged so far.
  IFS=, read -r _ _ total _ <<<"$total"
  if ! progress "$total"; then
    status=$(grep -o 'HTTP status [0-9]*' "$1.stderr" | tail -n 1 || true)
    fail "no sample was acknowledged for $STALL_S s: the server answers ${status:-nothing}; $(last_words)"
  fi
}

watch_query() { # a client that uses no CPU waits for the server, or hangs at its start
  # Set, since it may be over by now, and an unset one would end this shell without a word.
  local child="" stat=""
  local -a field=(0 0 0 0 0 0 0 0 0 0 0 0 0)
  { read -r child <"/proc/$CLIENT/task/$CLIENT/children"; } 2>/dev/null || true
  [[ -n $child ]] || return 0
  { read -r stat <"/proc/${child%% *}/stat"; } 2>/dev/null || return 0
  read -r -a field <<<"${stat##*) }"
  if ! progress "${field[11]} ${field[12]}"; then
    fail "no query was answered for $STALL_S s; $(last_words)"
  fi
  # TSBS's run_queries can hang before its first query, asleep without a connection (docs/surprises.md).
  ((SECONDS - PROGRESS_AT < HANG_S)) || has_connection
}

has_connection() { # is anyone connected to the server's port? 01 is ESTABLISHED
  local port
  # The space matters: without it, "01" is also the begin of 0100007F, a peer's address in any state.
  printf -v port ':%04X 01 ' "$DB_PORT"
  local line
  while read -r line; do
    [[ $line != *"$port"* ]] || return 0
  done </proc/net/tcp
  return 1
}
