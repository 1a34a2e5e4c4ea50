# The last words that matter, for the sentence of a round that failed: each a single line, cut to what can be read.
# shellcheck shell=bash
# Needs DB_LOG, of the server; TSDUEL_PROC from noise.sh.

readonly WORDS_BYTES=400

one_line() { # STDIN, without what a terminal would obey
  LC_ALL=C tr -s '[:cntrl:]' ' ' | cut -c "1-$WORDS_BYTES" | sed -E 's/^ +| +$//g'
}

last_words() { # of the server's log: what a crash says of itself, which stands before its stacks, else the newest complaint, else the last line
  local line
  line=$(grep -a -m 1 -E $'panic: |\tpanic\t|\tfatal\t|fatal error: |FATAL|SIGSEGV|flag provided|error: ' -- "$DB_LOG" || true)
  [[ -n $line ]] || line=$(grep -a -E $'\t(error|warn)\t' -- "$DB_LOG" | tail -n 1 || true)
  printf '%s (its log: %s)' "$(one_line <<<"${line:-$(tail -n 1 -- "$DB_LOG")}")" "${DB_LOG/.partial/}"
}

client_words() { # FILES...: of a client, the line before the stack that Go prints, else its last one
  local line
  line=$(cat -- "$@" 2>/dev/null | grep -a -m 1 -E '^panic: |^fatal error: |rror|^zstd: ' || true)
  [[ -n $line ]] || line=$(cat -- "$@" 2>/dev/null | grep -a -v '^[[:space:]]*$' | tail -n 1 || true)
  one_line <<<"${line:-it said nothing}"
}

exit_words() { # EXIT_CODE, and the signal that it stands for
  printf 'exit code %d' "$1"
  (($1 <= 128)) || printf ' (%s)' "$(kill -l "$1" 2>/dev/null || echo "no signal")"
}

oom_kills() { # -> REPLY, how many processes the kernel has ended for want of memory since it runs
  local key value
  REPLY=0
  while read -r key value; do
    [[ $key != oom_kill ]] || REPLY=$value
  done <"$TSDUEL_PROC/vmstat"
}

want_of_memory() { # a word on it, where it came to that in this round
  oom_kills
  if ((REPLY > ${OOM_KILLS:-REPLY})); then
    printf '; the kernel has ended a process for want of memory in this round: see dmesg, and take a larger machine or fewer hosts'
  fi
}
