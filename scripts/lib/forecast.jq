# What the planned blocks will be able to show, from the spread so far: a sentence, or nothing.
# Input: the round.json of all rounds. $plan, $forecast (plan/forecast.json), $noise (raw/noise.json): each in an array. $order: plan/rounds.tsv.
# $rows: of Go benchmarks [block, variant or column, row, seconds an operation]. $columns: what is compared, the baseline first. $block: just ended.
# Of the differences only `spread` is used, which is the same whoever is faster and by how much.

def median: sort | if length == 0 then null else (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2 end;
def mean: add / length;
def spread: mean as $middle | map(. - $middle | . * .) | add / ((length - 1)) | sqrt;
def decimal: . * 10 | round | "\(. / 10 | trunc).\(. % 10)";
def percent: 100 * (exp - 1) | decimal;
def lasting: if . < 90 then "\(ceil) s" elif . < 5400 then "\(. / 60 | round) minutes" else "\(. / 3600 | decimal) hours" end;
def joined: if length < 2 then .[0] // "" else "\(.[:-1] | join(", ")) and \(.[-1])" end;

def planned: $order | split("\n")[1:] | map(select(. != "") | split("\t") | {block: (.[0] | tonumber), variant: .[2], kind: .[3]});

# One value a metric and query type or row: {block, variant, metric, type, ln}.
def values:
  if $plan[0].kind == "gobench" then $rows[] | {block: .[0], variant: .[1], metric: "sec/op", type: .[2], ln: (.[3] | log)}
  else .[] | select(.status == "ok") as $of | $of.phases[] | select(.end > .begin) | {block: $of.block, variant: $of.variant, type: .query_type}
    # All variants get the same samples; a service time is workers / rate, and the workers are the same.
    + (if .phase == "load" then {metric: "load_rate", ln: -(.end - .begin | log)}
       elif .phase == "query" and .count > 0 then {metric: "query_mean_ms", ln: ((.end - .begin) / .count | log)} else empty end)
  end;

# As tsduel.tidy.blocks does it: whole in both and not spoilt; a spare block only in place of a spoilt one.
def counting($whole):
  [($noise[0].blocks // [])[] | select(.causes != []) | .block] as $spoilt
  | [planned | group_by(.block)[] | .[0] | select(.kind != "warmup") | select(.block | IN($whole[]))] as $there
  | [$there[] | select(.kind != "spare" and (.block | IN($spoilt[])))] as $open
  | [$there[] | select(.block | IN($spoilt[]) | not)] as $good
  | [$good[] | select(.kind != "spare")] + [$good[] | select(.kind == "spare")][:$open | length] | map(.block);

# The log ratio of each of these blocks: the mean over the types that all of them have.
def ratios($mine; $pair; $blocks):
  [$blocks[] as $b | $pair[] as $v | [$mine[] | select(.block == $b and .variant == $v)] | map({key: .type, value: .ln}) | from_entries] as $cells
  | [($cells[0] // {} | keys[]) | select(. as $t | all($cells[]; has($t)))] as $types
  | if $types == [] then [] else [range(0; $blocks | length) as $i
      | [$types[] as $t | $cells[2 * $i + 1][$t] - $cells[2 * $i][$t]] | mean] end;

# For each metric the candidate that scatters most: {title, threshold_pct, s_d, blocks, candidate}.
def spreads: [values] as $all
  | [$forecast[0].metrics[] | select(.watched) as $metric
     | [$all[] | select(.metric == $metric.metric)] as $mine
     | [$columns[1:][] as $candidate | [$columns[0], $candidate] as $pair
        | ([$pair[] as $v | [$mine[] | select(.variant == $v) | .block] | unique] | .[0] - (.[0] - .[1]) | counting(.)) as $blocks
        | ratios($mine; $pair; $blocks) | select(length >= $forecast[0].from_blocks)
        | {candidate: $candidate, blocks: length, s_d: spread}]
     | select(. != []) | $metric + max_by(.s_d)];

def needed: . as $m | ($m.threshold_pct / 100 | . + 1 | log) as $limit
  | first($forecast[0].seen[] | select(.[1] * $m.s_d <= $limit) | .[0]) // null;
def reach($blocks): first($forecast[0].reach[] | select(.[0] == $blocks));
def hopeless: ($forecast[0].mde_factor * .s_d * reach(.blocks)[1]) > (.threshold_pct / 100 + 1 | log);

def can_show: map("\($forecast[0].mde_factor * .s_d | percent) % in \(.title)"
  + "\(if ($columns | length) > 2 and .candidate then " of \(.candidate)" else "" end) (you asked for \(.threshold_pct) %)") | joined;

def would_need: [.[] | . + {needed: needed} | select(.needed == null or .needed > $forecast[0].blocks)]
  | map("for \(.threshold_pct) % in \(.title) \(if .needed then "\(.needed)" else "more than \($forecast[0].seen[-1][0])" end) blocks would be needed")
  | join(", ");

def what_to_do: (map(needed) | if any(. == null) then null else max end) as $most
  | "this run cannot answer that: make stop RUN=\($plan[0].run) finishes the round and ends it; "
    + if $most then "a new one could with BLOCKS=\($most), with longer phases, or on a quieter machine"
      else "longer phases or a quieter machine could" end;

# Too many, and there will be no verdict however long the run goes on.
def spoilt_words:
  [($noise[0].blocks // [])[] | select(.kind != "warmup" and .causes != [])] as $spoilt
  | ($plan[0].noise.spare_blocks // 0) as $spares | ($spoilt | length) as $n
  | if $n == 0 then [] else ["\($n) block\(if $n == 1 then " does" else "s do" end) not count so far (\($spoilt[-1].causes[0]))"
      + if $n > $spares then ", and \($spares) can be replaced: see what else runs (make doctor), or make stop RUN=\($plan[0].run)" else "" end] end;

def to_go: . as $rounds | ([$rounds[] | "\(.block) \(.variant)"]) as $done
  | [planned[] | select(.kind != "spare") | select("\(.block) \(.variant)" | IN($done[]) | not)] as $left
  | ([$rounds[] | select(.kind != "warmup") | .ended - .started] | if . == [] then $rounds | map(.ended - .started) else . end | median) as $each
  | if $left == [] or $each == null then [] else ["about \($each * ($left | length) | lasting) to go at this pace"] end;

. as $rounds | $forecast[0] as $f | to_go as $to_go | spreads as $found
| (if $found == [] then 0 else [$found[].blocks] | min end) as $n
| if $plan[0].smoke then empty
  elif $f.blocks < $f.fewest_blocks then ["no verdict is possible with fewer than \($f.fewest_blocks) blocks, whatever they show: this is a screen"] + $to_go
  elif $n >= $f.from_blocks then
    ["at this noise \($f.blocks) blocks can show \($found | can_show)"]
    + (if $n < $f.fewest_blocks then ["roughly, since it is from \($n) blocks: \(reach($n) | "\(.[1] | decimal) to \(.[2] | decimal)") times that"] else [] end)
    + [$found | if $to_go != [] and all(hopeless) then what_to_do else would_need end | select(. != "")] + $to_go
  else
    [$f.metrics[] | select(.watched and .s_d != null)] as $before
    | (if $before == [] then ["what \($f.blocks) blocks can show is seen from \($f.from_blocks) blocks on"]
       else ["if it scatters as the A/A run \($f.aa.run) did, \($f.blocks) blocks can show \($before | can_show)", ($before | would_need | select(. != ""))] end) + $to_go
  end
| spoilt_words + .
| "after \(if $block == 0 then "the warm-up" elif $block > $f.blocks then "spare block \($block)" else "block \($block) of \($f.blocks)" end)"
  + (if $n >= $f.from_blocks and $n != $block then " (\($n) blocks count)" else "" end) + ": " + join("; ")
