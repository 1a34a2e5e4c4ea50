# What must hold before a cache is removed: it is ours, and nobody uses it. Sourced by clean-cache.
# shellcheck shell=bash
# Needs common.sh and cache.sh.

refuse_unless_ours() { # DIRECTORY NAME_OF_ITS_KNOB: ends with a sentence unless CACHE may be removed
  local precious why="" real
  for precious in "${HOME:-/}" "$PWD" "${PROJECT:-/}"; do
    real=$(realpath -m -- "$precious" && printf x) real=${real%$'\nx'}
    [[ $real/ != "${CACHE%/}"/* ]] || why="it is, or holds, $precious"
  done
  if [[ $why == "" ]] && ! is_mine "$CACHE"; then why="it belongs to somebody else"; fi
  if [[ $why == "" ]] && ! is_marked "$CACHE/$CACHE_MARKER" && ! is_old_cache; then
    why="it has no marker of ours ($CACHE_MARKER)${FOREIGN[0]:+ and holds ${FOREIGN[0]@Q}}"
  fi
  [[ $why == "" ]] || die "$EXIT_USER" "$2: ${1@Q} is not a cache that we have made: $why; nothing was removed. If it is one, remove it by hand"
}

# The one place that answers "does a run use this cache?". Whoever asks keeps others out until it ends.
hold_cache() { # of CACHE; ends with a sentence if a run or a build is going on in it
  local lock
  # Where nothing is to be changed, no lock is made either.
  [[ ${DRY:-0} != 1 || -e $CACHE/$CACHE_LOCK ]] || return 0
  exec 9>>"$CACHE/$CACHE_LOCK"
  flock -n 9 || die "$EXIT_USER" "a run is using $CACHE: $(<"$CACHE/$CACHE_LOCK"); wait for it, or stop it (make stop), then try again"
  for lock in "$CACHE"/*/{*.lock,lock}; do
    flock -n -- "$lock" true || die "$EXIT_USER" "something is being built in $CACHE (${lock#"$CACHE"/} is held); wait for it, then try again"
  done
}
