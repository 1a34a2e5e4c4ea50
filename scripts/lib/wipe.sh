# Wiping a directory that every round begins with empty: only one of ours, and only what is really in it.
# shellcheck shell=bash
# A directory D is ours if D.tsduel-data lies beside it, and if it is neither a link nor another disk: both lead elsewhere,
# where the marker says nothing.

why_not_ours() { # DIRECTORY: print why it must not be wiped; nothing if it may, or is not there
  local -r directory=$1
  if [[ -L $directory ]]; then
    printf '%s is a link, and is not followed: remove it; to measure another disk, point TSDUEL_CACHE to it' "$directory"
  elif [[ ! -e $directory ]]; then
    return 0
  elif [[ ! -e $directory.tsduel-data || -L $directory.tsduel-data ]]; then
    printf '%s is not marked as ours (%s beside it), so it is not wiped: move it away' "$directory" "${directory##*/}.tsduel-data"
  elif [[ $(stat -c %d -- "$directory") != "$(stat -c %d -- "${directory%/*}")" ]]; then
    printf '%s is a disk of its own, so it is not wiped: unmount it; to measure another disk, point TSDUEL_CACHE to it' "$directory"
  fi
}

wipe_ours() { # DIRECTORY that why_not_ours says nothing of: remove it, and mark what comes in its place
  : >"$1.tsduel-data"
  # A benchmark may have left directories that it wrote-protected. Links in it are removed and not followed, disks left alone.
  [[ ! -e $1 ]] || find "$1" -xdev -type d ! -perm -u+rwx -exec chmod u+rwx -- {} \;
  rm -rf --one-file-system -- "$1"
}
