# Our directory on another machine, removed from there: what `make uninstall TARGET=ssh` sends, behind the files that it needs.
# shellcheck shell=bash
# shellcheck disable=SC2034 # read by the functions of those files
# Needs common.sh, rounds.sh, cache.sh, guard.sh and remove.sh.

uninstall_there() { # DIRECTORY DRY YES
  local -r directory=$1 yes=$3
  DRY=$2
  local packages=""
  if [[ ! -e $directory && ! -L $directory ]]; then
    note "nothing of ours is there: there is no $directory"
    return
  fi
  if [[ ! -d $directory || -L $directory || ! -O $directory || $(stat -c %a -- "$directory") != 700 ]]; then
    die "$EXIT_USER" "$directory is not a directory of ours, which nobody else may read; nothing was removed"
  fi
  find_runs "$directory"
  if find_cache "$directory/cache"; then
    refuse_unless_ours "$directory/cache" REMOTE_DIR
    hold_cache
  fi
  refuse_uncollected "$yes"
  if [[ -v CACHE ]]; then
    packages=$(list_packages "$CACHE/$CACHE_PACKAGES")
    tell_cache
  fi
  ((${#RUNS[@]} == 0)) || tell_line "$(bytes_of "${RUNS[@]}")" "runs/" "${#RUNS[@]} runs in ${directory@Q}"
  ((DRY)) || remove_all "$directory"
  tell_packages "$packages"
}

find_runs() { # DIRECTORY -> RUNS, those below it that were brought there from another machine
  local run
  RUNS=()
  for run in "$1"/runs/*; do
    [[ -L $run || ! -e $run/plan/ansible-vars.json && ! -e $run/project/scripts/detached ]] || RUNS+=("$run")
  done
}

refuse_uncollected() { # YES: what has run there and was not brought home would be lost
  local run
  for run in "${RUNS[@]}"; do
    [[ $1 != 1 && (-e $run/control/exit || -e $run/control/pid) ]] || continue
    die "$EXIT_USER" "the rounds of ${run##*/} were not all brought home: make tsbs RUN=${run##*/} does it (make fetch: what there is); YES=1 removes them; nothing was removed"
  done
}

remove_all() { # DIRECTORY
  if [[ -v CACHE ]]; then
    TSDUEL_SCRATCH=$1/cache/scratch
    end_strays
    remove_cache forget
  fi
  ((${#RUNS[@]} == 0)) || remove_trees "${RUNS[@]}"
  rmdir --ignore-fail-on-non-empty -- "$1/runs" "$1/cache" "$1" 2>/dev/null || true
  [[ ! -e $1 ]] || note "kept, since it is not ours: what is left in $1"
}
