# What a run that was cut off has left in raw/ is put in order before it goes on. Sourced by run-rounds, which holds the lock.
# shellcheck shell=bash
# Needs RUN_DIR.

tidy_up() {
  # A round that was not published is run again from its start, and nothing reads what it left.
  rm -rf -- "$RUN_DIR"/raw/*.partial "$RUN_DIR"/raw/*.partial.*
  mend_events
  # Made again from the warm-up block, which gives the same counts.
  drop_torn "$RUN_DIR/raw/calibration.json"
  drop_torn "$RUN_DIR/raw/workload.json"
  drop_torn_rounds
}

mend_events() { # a power cut leaves half a line, or zeros, and half a line would swallow the next event
  local -r file=$RUN_DIR/raw/events.jsonl
  local dropped
  [[ -s $file ]] || return 0
  jq -Rr 'select(fromjson? | type == "object")' "$file" >"$file.partial"
  if cmp -s -- "$file" "$file.partial"; then
    rm -- "$file.partial"
    return
  fi
  dropped=$(($(stat -c %s -- "$file") - $(stat -c %s -- "$file.partial")))
  keep "$file"
  # A last line may lack nothing but its end.
  ((dropped < 0)) || note "$file was cut off in the middle of a line: $dropped bytes of it are dropped"
}

drop_torn() { # FILE
  if [[ -e $1 ]] && ! is_whole "$1"; then
    note "$1 was cut short (a power cut?): it is made again"
    rm -f -- "$1"
  fi
}

drop_torn_rounds() { # a round is published only when all of it is on the disk; but disks have been known to lie
  local round
  for round in "$RUN_DIR"/raw/[0-9]*-[0-9]*-*; do
    if [[ -d $round ]] && ! is_whole "$round/round.json"; then
      note "${round##*/} has no record that can be read (a power cut?): it is run again"
      rm -rf -- "$round"
    fi
  done
}
