# Spare blocks: drawn with the plan, run only in place of blocks that were spoilt from outside. Sourced by run-rounds.
# shellcheck shell=bash
# Needs HERE RUN_DIR run_blocks.

replace_spoilt() { # a block whose round failed is not replaced: that is its variant's doing
  local spare block causes i left=1
  local -a spares spoilt
  mapfile -t spares < <(awk -F '\t' 'NR > 1 && $4 == "spare" && !seen[$1]++ { print $1 }' "$RUN_DIR/plan/rounds.tsv")
  while ((left)); do
    "$HERE/judge-noise" "$RUN_DIR"
    [[ -e $RUN_DIR/raw/noise.json ]] || return 0
    left=0
    mapfile -t spoilt < <(jq -r '.blocks[] | select(.state == "invalid") | "\(.block) \(.causes[:2] | join("; "))\(.causes[2:] | if . == [] then "" else "; and \(length) more" end)"' \
      "$RUN_DIR/raw/noise.json")
    # The first that is spoilt has the first spare, and so on: a spare that was run is not run again after an interruption.
    for i in "${!spoilt[@]}"; do
      read -r block causes <<<"${spoilt[i]}"
      spare=${spares[i]:-}
      if [[ $spare == "" ]]; then
        note "block $block does not count, and no spare block is left: $causes"
      elif ! spare_is_done "$spare"; then
        event block-replaced block "$block" spare "$spare" message "$causes"
        tell WARNING "block $block does not count, spare block $spare is run instead: $causes"
        run_blocks "$spare"
        left=1
        break
      fi
    done
  done
}

spare_is_done() { # BLOCK
  jq -e --argjson block "$1" 'any(.blocks[]; .block == $block and .state != "incomplete")' "$RUN_DIR/raw/noise.json" >/dev/null
}
