# Files that are there whole or not at all, whatever ends us: kill -9, a power cut, a full disk.
# shellcheck shell=bash

keep() { # FILE: FILE.partial becomes FILE; its bytes reach the disk first, or a power cut leaves the name of an empty file
  sync -- "$1.partial"
  mv -- "$1.partial" "$1"
}

is_whole() { # FILE: it holds one JSON object
  [[ -s $1 ]] && jq -se 'length == 1 and (.[0] | type == "object")' "$1" >/dev/null 2>&1
}

private_directory() { # DIRECTORY...: made for its user alone where it is not there
  (umask 077 && mkdir -p -- "$@")
}
