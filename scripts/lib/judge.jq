# Every round's noise -> raw/noise.json. Input: the round.json of all rounds; $plan: plan/experiment.json.
# Nothing here knows a measured value.

def rounded: . * 1000 | round / 1000;
def short: . * 10 | round / 10;
def median: sort | if length == 0 then null else (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2 end;
def name: "\(if .block < 10 then "0" else "" end)\(.block)-\(.position)-\(.variant)";

# One line: what was seen, what it is held against, and what follows. `$said` is the sentence without its limit.
def line($of; $phase; $signal; $value; $unit; $limit; $flag; $said):
  ($value | fabs) as $size
  | (if $limit != null and $size >= $limit and $of.kind != "warmup" then ["invalid", $limit]
     elif $flag != null and $size >= $flag then ["flag", $flag]
     # What is discarded anyway cannot be spoilt.
     elif $limit != null and $size >= $limit then ["flag", $limit]
     else ["ok", ($flag // $limit)] end) as [$effect, $crossed]
  | {block: $of.block, position: $of.position, round: ($of | name), variant: $of.variant, phase: $phase.phase,
     query_type: $phase.query_type, signal: $signal, value: ($value | rounded), unit: $unit, limit: $crossed, effect: $effect,
     message: (if $effect == "ok" then "" elif $unit == "" then $said else "\($said), limit \($crossed) \($unit)" end)};

# A clock tick is 10 ms: phases too short to be judged alone are judged together.
def units($of; $pool_s):
  [$of.phases[] | select(.noise != null)] as $timed
  | [$timed[] | select(.noise.seconds < $pool_s)] as $brief
  | [$timed[] | select(.noise.seconds >= $pool_s)]
  + (if ($brief | length) < 2 then $brief else
       [{phase: "pooled", query_type: "", noise: {cpus: $brief[0].noise.cpus,
         seconds: ([$brief[].noise.seconds] | add), steal_s: ([$brief[].noise.steal_s] | add),
         iowait_s: ([$brief[].noise.iowait_s] | add), foreign_s: ([$brief[].noise.foreign_s] | add),
         context_switches: ([$brief[].noise.context_switches] | add),
         pressure_s: ($brief[0].noise.pressure_s | with_entries(.key as $k | .value = ([$brief[].noise.pressure_s[$k] // 0] | add)))}}]
     end);

def where($of; $phase):
  if $phase.phase == "pooled" then "the short phases of \($of | name)"
  else "\([$phase.phase, $phase.query_type] | map(select(. != "")) | join(" ")) of \($of | name)" end;

def of_phases($of; $limits):
  units($of; $limits.pool_s // 0)[] as $phase
  | $phase.noise as $n
  | where($of; $phase) as $where
  | ($n.seconds * $n.cpus / 100) as $percent
  | select($percent > 0)
  | ($n.steal_s / $percent) as $steal
  | line($of; $phase; "steal_pct"; $steal; "%"; $limits.steal_pct; $limits.steal_flag_pct;
      "steal \($steal | short) % of the machine during \($where)"),
    (select($n.foreign_s != null) | ($n.foreign_s / $percent) as $foreign
     | line($of; $phase; "foreign_cpu_pct"; $foreign; "%"; $limits.foreign_cpu_pct; $limits.foreign_cpu_flag_pct;
        "foreign CPU \($foreign | short) % of the machine during \($where)")),
    ($n.pressure_s | to_entries[] | (.value / $n.seconds * 100) as $share
     | line($of; $phase; "pressure_\(.key)_pct"; $share; "%"; null; $limits["pressure_\(.key)_flag_pct"];
        "somebody waited for \(.key) during \($share | short) % of \($where)")),
    line($of; $phase; "iowait_pct"; $n.iowait_s / $percent; "%"; null; null; ""),
    line($of; $phase; "context_switches"; $n.context_switches / $n.seconds; "1/s"; null; null; "");

def of_canary($of; $medians; $limits):
  {phase: "", query_type: ""} as $round
  | ($of.canary | to_entries[]) as {key: $part, value: $seconds}
  | select($medians[$part] > 0)
  | (($seconds / $medians[$part] - 1) * 100) as $off
  | "the canary before \($of | name) took \($off | fabs | short) % \(if $off > 0 then "more" else "less" end) than the run's median" as $said
  # A disk's fsync varies by more than any limit on a shared machine, and a load waits for it rarely.
  | if $part == "fsync_s" then line($of; $round; "canary_fsync_pct"; $off; "%"; null; $limits.canary_fsync_flag_pct; "\($said) for its fsync'd writes")
    else line($of; $round; "canary_\($part | rtrimstr("_s"))_pct"; $off; "%"; $limits.canary_pct; $limits.canary_flag_pct;
      "\($said) for its \({cpu_s: "CPU spin", memory_s: "memory copy"}[$part])") end;

def of_round($of; $limits):
  {phase: "", query_type: ""} as $round
  | (select($of.noise.clock_step_s != null) | $of.noise.clock_step_s as $step
     | line($of; $round; "clock_step_s"; $step; "s"; $limits.clock_step_s; null; "the clock was set by \($step | rounded) s during \($of | name)")),
    (select($of.noise.swap_pages != null)
     | line($of; $round; "swap_pages"; $of.noise.swap_pages; "pages"; null; $limits.swap_flag_pages;
        "\($of.noise.swap_pages) pages were swapped during \($of | name)")),
    (select($of.noise.temperature_c != null) | line($of; $round; "temperature_c"; $of.noise.temperature_c; "C"; null; null; "")),
    (select(($of.maintenance // "") | . != "" and . != "NONE")
     | line($of; $round; "maintenance"; 1; ""; 1; null; "the host was under maintenance (\($of.maintenance)) during \($of | name)"));

def of_boots($block):
  ($block | sort_by(.position)) as $rounds
  | range(1; $rounds | length) as $i
  | select($rounds[$i].boot_id != $rounds[$i - 1].boot_id)
  | line($rounds[$i]; {phase: "", query_type: ""}; "reboot"; 1; ""; 1; null;
      "the machine was started again between \($rounds[$i - 1] | name) and \($rounds[$i] | name)");

def judged($block; $variants; $signals):
  ([$signals[] | select(.block == $block[0].block and .effect == "invalid") | .message]) as $causes
  | {block: $block[0].block, kind: $block[0].kind, causes: $causes,
     state: (if any($block[]; .status == "failed") then "failed"
             elif ($block | length) < $variants then "incomplete"
             elif ($causes | length) > 0 then "invalid"
             else "valid" end)};

sort_by(.block, .position) as $rounds
| $plan[0].noise as $limits
| (reduce ("cpu_s", "memory_s", "fsync_s") as $part ({}; .[$part] = ([$rounds[].canary[$part] // empty] | median))) as $medians
| ($rounds | group_by(.block)) as $blocks
| ([$rounds[] as $of | of_canary($of; $medians; $limits), of_phases($of; $limits), of_round($of; $limits)]
   + [$blocks[] | of_boots(.)] | sort_by(.block, .position)) as $signals
| {schema: 1, limits: $limits, canary_median_s: $medians,
   blocks: [$blocks[] | select(.[0].kind != "warmup") | judged(.; $plan[0].variants | length; $signals)], signals: $signals}
