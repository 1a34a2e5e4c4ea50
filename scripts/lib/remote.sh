# Removes our directory on another machine; `make uninstall TARGET=ssh` sends it after cache.sh.
# shellcheck shell=bash disable=SC2034 # functions of cache.sh read the variables

uninstall_remote() { # DIRECTORY DRY YES
  local -r directory=$1 yes=$3
  local run name packages=""
  local -a runs=()
  DRY=$2
  if [[ ! -e $directory && ! -L $directory ]]; then
    note "nothing of tsduel is there: there is no $directory"
    return
  fi
  if [[ ! -d $directory || -L $directory || ! -O $directory || $(stat -c %a -- "$directory") != 700 ]]; then
    die "$directory is not a private directory that tsduel made; nothing was removed"
  fi
  if find_cache "$directory/cache"; then
    refuse_unless_ours "$directory/cache" REMOTE_DIR
    hold_cache
  fi
  for run in "$directory"/runs/*; do
    # Only runs that came from another machine.
    if [[ -L $run || ! -e $run/plan/ansible-vars.json && ! -d $run/project ]]; then continue; fi
    runs+=("$run")
    name=${run##*/}
    [[ $yes == 1 || ! -e $run/control/exit && ! -e $run/control/pid ]] ||
      die "the blocks of $name were not all copied here: make tsbs RUN=$name does it (make fetch: what there is);" \
        "YES=1 removes them; nothing was removed"
  done
  if [[ -v CACHE ]]; then
    packages=$(list_packages "$CACHE/$CACHE_PACKAGES")
    tell_cache
  fi
  ((${#runs[@]} == 0)) || tell_line "$(bytes_of "${runs[@]}")" "runs/" "${#runs[@]} runs in ${directory@Q}"
  if ((DRY == 0)); then
    # Only where a run had to ask for it.
    [[ ! -v CACHE || ! -e $CACHE/linger ]] || loginctl disable-linger ||
      note "the user still lingers: 'loginctl disable-linger' undoes it"
    [[ ! -v CACHE ]] || remove_cache forget
    ((${#runs[@]} == 0)) || remove_trees "${runs[@]}"
    rmdir --ignore-fail-on-non-empty -- "$directory/runs" "$directory/cache" "$directory" 2>/dev/null || true
    [[ ! -e $directory ]] || note "kept, since it is not ours: what is left in $directory"
  fi
  tell_packages "$packages"
}

# No command may read this text from the standard input.
uninstall_remote "$@" </dev/null
