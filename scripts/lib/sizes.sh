# The verb `size` of a database: source it in the script, and call `used` for each line.
# shellcheck shell=bash
set -Eeuo pipefail
shopt -s inherit_errexit nullglob

used() { # NAME [--exclude=PATTERN]... PATH...: prints the size of the paths that exist, 0 for none
  local word total=0
  local -a words=() paths=()
  for word in "${@:2}"; do
    if [[ $word == -* ]]; then words+=("$word"); elif [[ -e $word ]]; then paths+=("$word"); fi
  done
  ((${#paths[@]} == 0)) || total=$(du -cB1 "${words[@]}" "${paths[@]}" | tail -n 1)
  printf '%s %s\n' "$1" "${total%%$'\t'*}"
}

cd -- "$DB_DATA_DIR"
