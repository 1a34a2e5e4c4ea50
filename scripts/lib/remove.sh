# What is removed from a cache of ours, and what a person is told of it before. Sourced by clean-cache and uninstall.
# shellcheck shell=bash
# Needs common.sh and cache.sh.

human() { # BYTES -> 1.3 GB
  local -r units=(B kB MB GB TB)
  local tenths=$(($1 * 10)) unit=0
  while ((tenths >= 10000 && unit < 4)); do tenths=$((tenths / 1000)) unit=$((unit + 1)); done
  if ((unit == 0 || tenths >= 100)); then
    printf '%d %s' $((tenths / 10)) "${units[unit]}"
  else
    printf '%d.%d %s' $((tenths / 10)) $((tenths % 10)) "${units[unit]}"
  fi
}

bytes_of() { # PATH...: what they take on the disk
  # Not with -x: in an overlay, as containers have it, files seem to lie on another disk than their directory.
  { du -cs0B1 -- "$@" 2>/dev/null || true; } | tail -zn 1 | cut -z -f 1 | tr -d '\0'
}

tell_line() { # BYTES NAME WORDS
  printf '  %8s  %-13s %s\n' "$(human "$1")" "$2" "$3"
}

tell_cache() { # what CACHE holds, part by part, and what of it stays
  local part path bytes total=0
  local -a left=("$CACHE"/{tofu.partial,removed}.*)
  for part in "${CACHE_PARTS[@]}"; do
    path=$CACHE/${part%%=*}
    [[ -e $path || -L $path ]] || continue
    bytes=$(bytes_of "$path")
    total=$((total + bytes))
    tell_line "$bytes" "${part%%=*}/" "${part#*=}"
  done
  if ((${#left[@]})); then
    bytes=$(bytes_of "${left[@]}")
    total=$((total + bytes))
    tell_line "$bytes" "*.partial" "what a killed build or removal has left"
  fi
  tell_line "$total" "" "in ${CACHE@Q}"
}

remove_trees() { # PATH...: links are not followed, and other file systems are not entered
  rm -rf --one-file-system -- "$@" 2>/dev/null && return
  # Go writes its modules so that even their owner cannot remove them.
  find "$@" -xdev -type d ! -perm -u=rwx -exec chmod u+rwx -- {} \; 2>/dev/null || true
  rm -rf --one-file-system -- "$@"
}

# First out of the way, at once: a removal that is killed half-way leaves nothing that looks whole.
remove_cache() { # [forget]: all that is ours in CACHE, the list of packages only if it may be forgotten; CACHE too if it is empty then
  local part name entry away
  local -a kept=() unmarked
  away=$(mktemp -d -- "$CACHE/removed.XXXXXX")
  for part in "${CACHE_PARTS[@]}"; do
    part=$CACHE/${part%%=*}
    [[ -e $part || -L $part ]] || continue
    # Not a mount point, and no directory that a round would not wipe, since it is not marked as ours.
    unmarked=()
    for name in data bench; do
      if [[ $part == */scratch && -e $part/$name && ! -e $part/$name.tsduel-data ]]; then unmarked+=("$name"); fi
    done
    if ((${#unmarked[@]})); then
      kept+=("${unmarked[@]/#/scratch/}")
      for entry in "$part"/* "$part"/.[!.]*; do
        [[ " ${unmarked[*]} " == *" ${entry##*/} "* ]] || mv -t "$away" -- "$entry"
      done
    else
      mv -T -- "$part" "$away/${part##*/}" 2>/dev/null || kept+=("${part##*/}")
    fi
  done
  remove_trees "$CACHE"/{tofu.partial,removed}.*
  list_foreign
  kept+=("${FOREIGN[@]}")
  if ((${#kept[@]})); then
    note "not removed, since it is not ours or a disk of its own: ${kept[*]@Q} in ${CACHE@Q}"
  elif [[ -s $CACHE/$CACHE_PACKAGES && ${1:-} != forget ]]; then
    note "kept: ${CACHE@Q}/$CACHE_PACKAGES, which 'make uninstall' needs"
  else
    rm -f -- "$CACHE"/{"$CACHE_MARKER","$CACHE_PACKAGES","$CACHE_LOCK"}
    rmdir --ignore-fail-on-non-empty -- "$CACHE" 2>/dev/null || true
  fi
}

list_packages() { # FILE: those that we have installed and that are still there, each behind a blank
  local name
  [[ -s $1 ]] || return 0
  while read -r name; do
    [[ $name =~ ^[a-z0-9][a-z0-9+.-]+$ ]] || continue
    [[ $(dpkg-query -W -f '${db:Status-Status}' -- "$name" 2>/dev/null) != installed ]] || printf ' %s' "$name"
  done < <(sort -u -- "$1")
}

tell_packages() { # NAMES
  local command="apt-get purge$1"
  [[ $1 != "" ]] || return 0
  if command -v sudo >/dev/null; then command="sudo $command"; elif ((EUID != 0)); then command="su -lc '$command'"; fi
  note "these Debian packages were installed for us; if nothing else needs them by now: $command"
}
