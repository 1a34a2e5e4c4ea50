# Our cache: its parts, marker, users and removal. mark-cache, clean-cache and uninstall source it. It needs no other
# file, since it is sent to another machine before remote.sh.
# shellcheck shell=bash disable=SC2034 # the scripts that source it read the variables
set -Eeuo pipefail
shopt -s inherit_errexit nullglob
export LC_ALL=C

readonly EXIT_USER=2 # as in docs/operating.md
# All parts, as NAME=DESCRIPTION in the order of the output.
readonly CACHE_PARTS=("go=Go's modules and build cache" "toolchain=Go itself" "tsbs=TSBS"
  "variants=binaries of the variants" "agent=our own program" "src=git clones" "workload=data and query files"
  "scratch=unpacked data, and the databases' files while a block runs" "bin=OpenTofu and benchstat"
  "terraform=Terraform's providers" "ansible=Ansible's own files" "matplotlib=fonts of the pictures"
  "secrets=values that plans only name, and logins of repositories"
  "barehost=the machine of the tests" "provider=the provider of the tests"
  "k8s=the Kubernetes of the tests" "bench=what make bench measures")
# CACHE_PACKAGES lists the Debian packages that ensure-packages installed; only `make uninstall` removes the list.
readonly CACHE_MARKER=.tsduel-cache CACHE_LOCK=run.lock CACHE_PACKAGES=installed-packages
readonly CACHE_WORDS="A cache of tsduel: all of it can be made again, and make clean-cache removes it."

note() { # WORDS...: a closed stderr is no error
  printf '%s\n' "$*" >&2 || true
}

die() { # WORDS...: an error that the user can correct
  printf 'tsduel: %s\n' "$*" >&2
  exit "$EXIT_USER"
}

real_path() { # PATH -> REPLY, which $(...) would change if the name ends in a newline
  REPLY=$(realpath -m -- "$1" && printf x)
  REPLY=${REPLY%$'\nx'}
}

find_project() { # -> PROJECT, from HERE
  real_path "$HERE/.."
  PROJECT=$REPLY
}

find_cache() { # DIRECTORY -> CACHE, its real path; fails if there is none
  [[ -d $1 ]] || return 1
  real_path "$1"
  CACHE=$REPLY
}

is_mine() { # PATH: another user could make such a file to mislead us
  [[ -O $1 || $EUID == 0 ]]
}

refuse_others() { # DIRECTORY: ends with a sentence if it lies in another user's, where all users may write
  real_path "$1"
  local path=$REPLY
  while ((${#path} > 1)); do
    if [[ -k ${path%/*}/ && -e $path && ! -O $path && $(stat -c %u -- "$path") != 0 ]]; then
      die "TSDUEL_CACHE: $path belongs to another user, who could change what is built there: name" \
        "a directory of your own"
    fi
    path=${path%/*}
  done
}

list_foreign() { # -> FOREIGN, the names in CACHE that are not ours
  local path part
  FOREIGN=()
  for path in "$CACHE"/{*,.[!.]*,..?*}; do
    case ${path##*/} in
    "$CACHE_MARKER" | "$CACHE_MARKER.partial"* | "$CACHE_LOCK" | "$CACHE_PACKAGES") continue ;;
    tofu.partial.* | removed.* | lost+found | linger) continue ;;
    esac
    for part in "${CACHE_PARTS[@]}"; do
      [[ ${path##*/} != "${part%%=*}" ]] || continue 2
    done
    FOREIGN+=("${path##*/}")
  done
}

is_ours() { # CACHE has our marker, which is no link; or it is the checkout's cache and has only our parts
  local -r marker=$CACHE/$CACHE_MARKER
  list_foreign
  if [[ -f $marker && ! -L $marker ]] && is_mine "$marker" && grep -qxF -- "$CACHE_WORDS" "$marker"; then return; fi
  [[ $CACHE == "${PROJECT:-}/.cache" ]] && ((${#FOREIGN[@]} == 0))
}

mark_cache() { # CACHE if it is new or ours, but not a directory with other files
  local -a entries=("$CACHE"/{*,.[!.]*,..?*})
  ((${#entries[@]} == 0)) || is_ours || return 0
  # Two commands may mark it at once.
  local -r partial=$CACHE/$CACHE_MARKER.partial.$BASHPID
  printf '%s\n' "$CACHE_WORDS" >"$partial"
  mv -- "$partial" "$CACHE/$CACHE_MARKER"
}

refuse_unless_ours() { # DIRECTORY NAME_OF_ITS_KNOB: ends with a sentence unless CACHE may be removed
  local precious why=""
  for precious in "${HOME:-/}" "$PWD" "${PROJECT:-/}"; do
    real_path "$precious"
    [[ $REPLY/ != "${CACHE%/}"/* ]] || why="it is, or holds, $precious"
  done
  if [[ $why == "" ]] && ! is_mine "$CACHE"; then why="it belongs to somebody else"; fi
  if [[ $why == "" ]] && ! is_ours; then
    why="it has no marker of tsduel ($CACHE_MARKER)${FOREIGN[0]:+ and holds ${FOREIGN[0]@Q}}"
  fi
  [[ $why == "" ]] ||
    die "$2: ${1@Q} is not a cache that we have made: $why; nothing was removed. If it is one, remove it by hand"
}

hold_cache() { # locks CACHE until the script ends; ends with a sentence if a run or a build uses it
  local lock
  # DRY=1 makes no lock.
  [[ ${DRY:-0} != 1 || -e $CACHE/$CACHE_LOCK ]] || return 0
  exec 9>>"$CACHE/$CACHE_LOCK"
  flock -n 9 ||
    die "a run is using $CACHE: $(<"$CACHE/$CACHE_LOCK"); wait for it, or stop it (make stop), then try again"
  for lock in "$CACHE"/*/{*.lock,lock}; do
    flock -n -- "$lock" true ||
      die "something is being built in $CACHE (${lock#"$CACHE"/} is held); wait for it, then try again"
  done
}

end_strays() { # SCRATCH: ends processes that a killed run has left; they have that directory in their environment
  local environ pid stat name
  local -a environs=(/proc/[0-9]*/environ)
  while IFS='' read -r environ; do
    pid=${environ//[!0-9]/}
    name=$({ tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c 1-80; } 2>/dev/null || true)
    note "ending what an interrupted run left behind: $name (pid $pid)"
    kill -KILL "$pid" 2>/dev/null || true
    for _ in {1..200}; do
      # A zombie is gone too.
      if ! { stat=$(<"/proc/$pid/stat"); } 2>/dev/null || [[ $stat == *") Z"* ]]; then break; fi
      sleep 0.05
    done
  done < <(grep -lzxF -- "TSDUEL_SCRATCH=$1" "${environs[@]}" 2>/dev/null || true)
}

human() { # BYTES -> 1.3 GB
  numfmt --to=si --round=down -- "$1" | sed -E 's/([kKMGT]?)$/ \1B/; s/K/k/'
}

bytes_of() { # PATH...: their size on disk
  # Without -x: in a container's overlay, files seem to be on another disk than their directory.
  { du -cs0B1 -- "$@" 2>/dev/null || true; } | tail -zn 1 | cut -z -f 1 | tr -d '\0'
}

tell_line() { # BYTES NAME WORDS
  printf '  %8s  %-13s %s\n' "$(human "$1")" "$2" "$3"
}

tell_cache() { # prints the parts of CACHE and their sizes
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

remove_trees() { # PATH...: neither links nor other file systems are followed
  rm -rf --one-file-system -- "$@" 2>/dev/null && return
  # Go's module directories are read-only.
  find "$@" -xdev -type d ! -perm -u=rwx -exec chmod u+rwx -- {} \; 2>/dev/null || true
  rm -rf --one-file-system -- "$@"
}

remove_cache() { # [forget]: all our parts of CACHE; with `forget` the list of packages too; then CACHE if it is empty
  # All parts are first moved away: after a kill none looks complete.
  local part name entry away
  local -a kept=() unmarked
  end_strays "$CACHE/scratch"
  away=$(mktemp -d -- "$CACHE/removed.XXXXXX")
  for part in "${CACHE_PARTS[@]}"; do
    part=$CACHE/${part%%=*}
    [[ -e $part || -L $part ]] || continue
    # A mount point stays, and directories that no block would wipe, since they have no marker.
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
    rm -f -- "$CACHE"/{"$CACHE_MARKER","$CACHE_PACKAGES","$CACHE_LOCK",linger}
    rmdir --ignore-fail-on-non-empty -- "$CACHE" 2>/dev/null || true
  fi
}

list_packages() { # FILE: prints the packages that we installed and that still exist, each after a space
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
