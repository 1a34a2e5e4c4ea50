# Our directory on another machine, removed from there: what `make uninstall TARGET=ssh` sends, behind cache.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034 # read by the functions of cache.sh

uninstall_there() { # DIRECTORY DRY YES
  local -r directory=$1 yes=$3
  local run packages=""
  local -a runs=()
  DRY=$2
  if [[ ! -e $directory && ! -L $directory ]]; then
    note "nothing of ours is there: there is no $directory"
    return
  fi
  if [[ ! -d $directory || -L $directory || ! -O $directory || $(stat -c %a -- "$directory") != 700 ]]; then
    die "$directory is not a directory of ours, which nobody else may read; nothing was removed"
  fi
  if find_cache "$directory/cache"; then
    refuse_unless_ours "$directory/cache" REMOTE_DIR
    hold_cache
  fi
  for run in "$directory"/runs/*; do
    # Those that were brought there from another machine.
    if [[ -L $run || ! -e $run/plan/ansible-vars.json && ! -d $run/project ]]; then continue; fi
    runs+=("$run")
    # What has run there and was not brought home would be lost.
    [[ $yes == 1 || ! -e $run/control/exit && ! -e $run/control/pid ]] ||
      die "the blocks of ${run##*/} were not all brought home: make tsbs RUN=${run##*/} does it (make fetch: what there is); YES=1 removes them; nothing was removed"
  done
  if [[ -v CACHE ]]; then
    packages=$(list_packages "$CACHE/$CACHE_PACKAGES")
    tell_cache
  fi
  ((${#runs[@]} == 0)) || tell_line "$(bytes_of "${runs[@]}")" "runs/" "${#runs[@]} runs in ${directory@Q}"
  if ((DRY == 0)); then
    [[ ! -v CACHE ]] || remove_cache forget
    ((${#runs[@]} == 0)) || remove_trees "${runs[@]}"
    rmdir --ignore-fail-on-non-empty -- "$directory/runs" "$directory/cache" "$directory" 2>/dev/null || true
    [[ ! -e $directory ]] || note "kept, since it is not ours: what is left in $directory"
  fi
  tell_packages "$packages"
}
