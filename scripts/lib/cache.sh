# A cache of ours: what is in it, and how it is known to be one. Sourced where it is marked and where something is removed from it.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034
# Needs common.sh. Sent to another machine with it, so nothing here looks for a file beside this one.

# NAME=WHAT, in the order in which a person is told. There is nothing else of ours in it.
readonly CACHE_PARTS=("go=Go's modules and build cache" "toolchain=Go itself" "tsbs=TSBS" "variants=binaries of the variants" "src=git clones"
  "agent=our own program" "workload=data and query files" "scratch=unpacked data, and the database's files while a round runs" "bin=OpenTofu and benchstat"
  "terraform=Terraform's providers" "ansible=Ansible's own files" "matplotlib=fonts of the pictures" "barehost=the machine of the tests"
  "provider=the provider of the tests" "bench=what make bench measures")
readonly CACHE_MARKER=.tsduel-cache CACHE_LOCK=run.lock
# The Debian packages that ensure-packages has installed: not to be made again, so it goes with `make uninstall` only.
readonly CACHE_PACKAGES=installed-packages
readonly CACHE_WORDS="A cache of tsduel: all of it can be made again, and make clean-cache removes it."
# An entry of the cache (workload/KEY and so on) was last used when this file in it was touched.
readonly CACHE_USED=.used

find_project() { # -> PROJECT, from HERE
  # A name may end in a newline, which $(...) cuts off: that would be another directory.
  PROJECT=$(cd -P -- "$HERE/.." && pwd && printf x)
  PROJECT=${PROJECT%$'\nx'}
}

find_cache() { # DIRECTORY -> CACHE, where it really is; fails if it is not there
  local path=$1
  [[ $path == /* ]] || path=./$path
  [[ -d $path ]] || return 1
  CACHE=$(CDPATH='' cd -P -- "$path" && pwd -P && printf x) || return 1
  CACHE=${CACHE%$'\nx'}
  [[ $CACHE -ef $path ]]
}

is_marked() { # FILE: our marker, and not by way of a link
  [[ -f $1 && ! -L $1 ]] && is_mine "$1" && grep -qxF -- "$CACHE_WORDS" "$1"
}

is_mine() { # PATH: not another user's, who could have put it there for us to find
  [[ -O $1 || $EUID == 0 ]]
}

list_foreign() { # -> FOREIGN, the names in CACHE that are not ours
  local path part
  FOREIGN=()
  for path in "$CACHE"/{*,.[!.]*,..?*}; do
    case ${path##*/} in
    "$CACHE_MARKER" | "$CACHE_MARKER.partial" | "$CACHE_LOCK" | "$CACHE_PACKAGES" | tofu.partial.* | removed.* | lost+found) continue ;;
    esac
    for part in "${CACHE_PARTS[@]}"; do
      [[ ${path##*/} != "${part%%=*}" ]] || continue 2
    done
    FOREIGN+=("${path##*/}")
  done
}

is_old_cache() { # CACHE is from before the marker: nothing but what we know, and something that nobody else would have so
  local path
  local -a signs=("$CACHE"/{"$CACHE_LOCK","$CACHE_PACKAGES",go/telemetry} "$CACHE"/{variants/*.lock,tsbs/*.lock,workload/*/data.zst,toolchain/go-*})
  list_foreign
  ((${#FOREIGN[@]} == 0)) || return 1
  # The checkout's own, whatever little is in it.
  [[ $CACHE != "${PROJECT:-}/.cache" ]] || return 0
  # Names that others use as well.
  for path in "$CACHE"/src/*; do
    [[ ${path##*/} =~ ^[0-9a-f]{16}\.(git|lock) ]] || return 1
  done
  for path in "$CACHE"/bin/*; do
    [[ ${path##*/} =~ ^(tofu|benchstat)- ]] || return 1
  done
  for path in "${signs[@]}"; do
    [[ ! -e $path ]] || return 0
  done
  return 1
}

mark_cache() { # what is new or ours already; a directory that holds other things is not made ours by being named
  local -a entries=("$CACHE"/{*,.[!.]*,..?*})
  ! is_marked "$CACHE/$CACHE_MARKER" || return 0
  ((${#entries[@]} == 0)) || is_old_cache || return 0
  printf '%s\n' "$CACHE_WORDS" >"$CACHE/$CACHE_MARKER.partial"
  mv -- "$CACHE/$CACHE_MARKER.partial" "$CACHE/$CACHE_MARKER"
}
