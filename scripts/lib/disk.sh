# A full disk: told as what it is, and not as the failure of a version.
# shellcheck shell=bash
# Needs RUN_DIR and TSDUEL_SCRATCH.

# A database stops writing before the last byte (VictoriaMetrics: 10 MB).
readonly FULL_BYTES=$((16 << 20))

is_full() { # DIRECTORY -> FREE, bytes there; true if its disk is full, of bytes or of files
  local files=0 free_files=0
  FREE=$FULL_BYTES
  read -r FREE files free_files < <(df -B1 --output=avail,itotal,iavail -- "$1" 2>/dev/null | tail -n 1) || true
  [[ $FREE =~ ^[0-9]+$ ]] || return 1
  ((FREE < FULL_BYTES)) || [[ $files =~ ^[1-9] && $free_files == 0 ]]
}

say_if_full() { # false, and nothing is said, if no disk of ours is full
  local directory remedy
  for directory in "$RUN_DIR" "$TSDUEL_SCRATCH"; do
    if [[ ! -d $directory ]] || ! is_full "$directory"; then continue; fi
    remedy="free some there"
    [[ $directory == "$RUN_DIR" ]] || remedy+=", or point TSDUEL_CACHE to a larger disk"
    complain "the disk of $directory is full ($((FREE >> 20)) MiB are free): $remedy; no finished round is lost. To go on: make $(plan .kind) RUN=${RUN_DIR##*/}"
    # Said, since without a number it is the status before the trap that we are called from.
    return 0
  done
  return 1
}

taken_by_database() { # MiB of its files, if they are more than was expected of them: then a full disk is that version's doing
  local used expected
  used=$(du -sB1 -- "$1" 2>/dev/null | cut -f 1)
  expected=$(plan .estimate.database_bytes)
  ((${used:-0} > expected)) || return 1
  printf 'its files take %d MiB, and %d were expected' $((used >> 20)) $((expected >> 20))
}
