# One process of a test binary: started in a clean directory, watched, and looked at before it counts.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034
# Needs HERE RUN_DIR ROUND_DIR VARIANT and `fail`; sets CLIENT_EXIT and what run-client says

readonly LOOK_S=2

of_variant() { # JQ_FILTER [JQ_OPTION]: of this variant's part of the plan
  jq "${2:--r}" --arg v "$VARIANT" ".variants[] | select(.name == \$v) | $1" "$RUN_DIR/plan/experiment.json"
}

take_variant() { # -> BENCH_*: what is run of it, and how
  local package
  read_plan gobench watchdog
  BENCH_CPU=${P_GOBENCH_CPU:-$(nproc)}
  BENCH_BINARY=$(jq -r .binary "$RUN_DIR/build/$VARIANT.json")
  package=$(of_variant .package)
  BENCH_PACKAGE=${package#.} BENCH_PACKAGE=${BENCH_PACKAGE#/}
  # Values with a NUL after each, so that no character of theirs can mean anything to a shell.
  mapfile -d '' -t BENCH_ENV < <(of_variant '.env | to_entries[] | "\(.key)=\(.value)\u0000"' -j)
}

whole_benchtime() { # of a process that runs the whole pattern
  if [[ -n $P_GOBENCH_COUNT ]]; then printf '%sx' "$P_GOBENCH_COUNT"; else printf '%ss' "$P_GOBENCH_SECONDS"; fi
}

planned_rows() { # [EVERY]: row, name, pattern for it alone, operations; with EVERY those rows that all variants have
  jq -r --arg v "$VARIANT" --argjson least "${1:-1}" 'def quoted: gsub("(?<c>[\\\\.+*?()|\\[\\]{}^$])"; "\\\(.c)");
    .rows[] | select(.names[$v] and (.names | length) >= $least)
    | [.row, .names[$v], (.names[$v] | split("/") | map("^\(quoted)$") | join("/")), (.count | tostring)]
    | join("\t")' "$RUN_DIR/raw/calibration.json"
}

wipe_directory() { # unless it is not ours, which the round has failed for
  [[ -z $(why_not_ours "$TSDUEL_SCRATCH/bench") ]] || return 0
  wipe_ours "$TSDUEL_SCRATCH/bench"
}

clean_directory() { # -> BENCH_DIR, as the package's own directory is, but with nothing in it that was not asked for
  local -r root=$TSDUEL_SCRATCH/bench why=$(why_not_ours "$TSDUEL_SCRATCH/bench")
  [[ -z $why ]] || fail "$why"
  wipe_ours "$root"
  BENCH_DIR=$root/$BENCH_PACKAGE
  mkdir -p -- "$BENCH_DIR" "$root/.tmp"
  if [[ -d ${BENCH_BINARY%/*}/files ]]; then cp -a -- "${BENCH_BINARY%/*}/files/." "$root/"; fi
}

run_bench() { # WHAT ARGS...: the test binary with these, watched
  local -r what=$1 prefix=$ROUND_DIR/part
  shift
  rm -f -- "$prefix".*
  clean_directory
  # What shapes Go's runtime comes from the experiment, or from nowhere. setpriv keeps a path with "=" from being taken
  # for a variable, and ends the process with its parent.
  setsid "$HERE/run-client" "$prefix" env -C "$BENCH_DIR" -u GOGC -u GOMEMLIMIT -u GODEBUG -u GOMAXPROCS -u GOTRACEBACK \
    TMPDIR="$TSDUEL_SCRATCH/bench/.tmp" "${BENCH_ENV[@]}" "$(command -v setpriv)" --pdeathsig KILL -- "$BENCH_BINARY" \
    -test.run='^$' -test.v -test.count=1 -test.benchmem -test.timeout=0 -test.cpu="$BENCH_CPU" "$@" &
  CLIENT=$!
  watch_bench "$what" "$prefix"
  wait "$CLIENT" || true
  CLIENT=""
  keep_output "$prefix"
  [[ -e $prefix.exit ]] || fail "$what was ended by something else than us"
  read -r CLIENT_EXIT USER_S SYSTEM_S BEGIN END <"$prefix.exit"
}

watch_bench() { # WHAT PREFIX: until it is over; -test.timeout is off, so that this is the only clock
  local seen="" now ticks=0 ticks_then=0 heard_at=$SECONDS busy_at=$SECONDS turns=0
  while is_alive "$CLIENT"; do
    pause 0.2
    ((++turns % (LOOK_S * 5) == 0)) || continue
    now=$(stat -c %s -- "$2.stdout" "$2.stderr" 2>/dev/null | tr '\n' ' ')
    if [[ $now != "$seen" ]]; then seen=$now heard_at=$SECONDS busy_at=$SECONDS; fi
    ticks=$(bench_ticks)
    # A hundredth of a core is a timer that ticks, not work.
    if ((ticks - ticks_then > LOOK_S)); then busy_at=$SECONDS; fi
    ticks_then=$ticks
    if ((SECONDS - busy_at >= P_WATCHDOG_IDLE_S)); then
      end_stalled "$2"
      fail "$1 hangs: no output and no CPU for $P_WATCHDOG_IDLE_S s (watchdog.idle_s); its goroutines are in bench.stderr"
    fi
    if ((SECONDS - heard_at >= P_WATCHDOG_SILENT_S)); then
      end_stalled "$2"
      fail "$1 did not end: no output for $P_WATCHDOG_SILENT_S s (watchdog.silent_s); its goroutines are in bench.stderr"
    fi
  done
}

bench_pid() { # of the test binary, which run-client is the parent of
  local child=""
  { read -r child _ <"/proc/$CLIENT/task/$CLIENT/children"; } 2>/dev/null || true
  printf '%s' "$child"
}

bench_ticks() { # hundredths of a second of CPU so far
  local stat=""
  local -a field=(0 0 0 0 0 0 0 0 0 0 0 0 0)
  { read -r stat <"/proc/$(bench_pid)/stat"; } 2>/dev/null || true
  [[ -z $stat ]] || read -r -a field <<<"${stat##*) }"
  printf '%s' $((field[11] + field[12]))
}

end_stalled() { # PREFIX: Go says what its goroutines wait for before it goes
  local -r pid=$(bench_pid)
  if [[ -n $pid ]]; then kill -QUIT "$pid" 2>/dev/null || true; fi
  pause 1
  end_client
  keep_output "$1"
}

keep_output() { # PREFIX: as Go wrote it, one process after the other
  OUTPUT_FROM=$(stat -c %s -- "$ROUND_DIR/bench.txt" 2>/dev/null || echo 0)
  cat -- "$1.stdout" >>"$ROUND_DIR/bench.txt"
  OUTPUT_TO=$(stat -c %s -- "$ROUND_DIR/bench.txt")
  cat -- "$1.stderr" >>"$ROUND_DIR/bench.stderr"
}

refuse_unmeasured() { # WHAT PREFIX: what failed, skipped or was cut short has measured nothing
  local words
  # With -test.v a benchmark's own words stand before its mark.
  words=$(cat -- "$2.stderr" "$2.stdout" | grep -m 1 -B 4 -A 1 -E '^(--- FAIL|--- SKIP|panic: |fatal error: )' |
    grep -vE '^(FAIL|PASS|Benchmark[^ ]*|exit status.*|(goos|goarch|pkg|cpu): .*)?$' | tr -s '\n\t ' ' ' | sed -E 's/^ | $//g' | cut -c 1-400 || true)
  if ((CLIENT_EXIT != 0)); then
    fail "$1 ended with exit code $CLIENT_EXIT: ${words:-$(cat -- "$2.stdout" "$2.stderr" | grep -v '^$' | tail -n 1 | cut -c 1-400)}"
  fi
  [[ -z $words ]] || fail "$1 was not measured: $words"
  grep -qx PASS -- "$2.stdout" || fail "$1 ended without PASS: the test binary left before its benchmarks were done"
}

results() { # FILE: name without -CPU, and operations, of every result line
  awk -v suffix="-$BENCH_CPU" '
    /^Benchmark/ && NF >= 4 && $2 ~ /^[0-9]+$/ {
      name = $1
      if (suffix != "-1" && substr(name, length(name) - length(suffix) + 1) == suffix) name = substr(name, 1, length(name) - length(suffix))
      print name "\t" $2
    }' "$1"
}
