# The warm-up's results -> raw/calibration.json: which name of which variant is which row, and how many operations for all.
# Input: [{variant, name, count}] in the order of the experiment's variants. $go: the plan's `gobench`. Wrong input: an error, in a sentence.

# `$1` to `$9` of a replacement.
def filled($groups): reduce range(0; 9) as $i (.; split("$\($i + 1)") | join($groups[$i].string // ""));

def renamed($rule):
  . as $name
  | if $rule.drop then split("/") | del(.[$rule.drop]) | join("/")
    else [match($rule.match)] | if length == 0 then $name else .[0] as $m
      | $name[:$m.offset] + ($rule.to | filled($m.captures)) + $name[$m.offset + $m.length:] end
    end;

def row: reduce $go.rename[] as $rule (.; renamed($rule)) | sub("^Benchmark"; "");

def key: if contains("=") then split("=")[0] else "" end;

# Every row gets its cell: which row and which column of the table it is.
def pivoted($rows): $go.pivot as $pivot
  | [$rows[] | .row as $row | ($row | split("/")) as $parts | ($parts | map(select(key == $pivot.column)) | first) as $column
    | select($column)
    | ($parts | map(. as $part | select(key != $pivot.column and ($pivot.rows == [] or key == "" or ($pivot.rows | index($part | key)))))) as $kept
    | . + {cell: {row: ($kept | join("/")), column: ($column | split("=")[1:] | join("="))}}] as $cells
  | (reduce $cells[].cell.column as $c ([]; if index($c) then . else . + [$c] end)) as $columns
  | ([$cells | group_by(.cell)[] | select(length > 1)] | first) as $clash
  | if ($columns | length) < 2 then error("gobench.pivot: the names hold fewer than two values of \($pivot.column)=, as in \($rows[0].row)")
    elif $clash then error("gobench.pivot: \($clash[0].row) and \($clash[1].row) would be one cell: name more keys in gobench.pivot.rows")
    else {columns: $columns, rows: [$cells[] | .cell.row as $row | .count = ([$cells[] | select(.cell.row == $row) | .count] | max)]} end;

map(. + {row: (.name | row)})
| group_by([.row, .variant]) as $same
| ([$same[] | select(length > 1)] | first) as $clash
| if $clash then error("gobench.rename: \($clash | map(.name) | join(" and ")) of \($clash[0].variant) would both be the row \($clash[0].row)") else . end
| (map(.variant) | unique) as $variants
| reduce .[] as $one ({order: [], rows: {}};
    (if .rows[$one.row] then . else .order += [$one.row] end)
    | .rows[$one.row].row = $one.row
    | .rows[$one.row].count = ([.rows[$one.row].count // 0, $one.count] | max)
    | .rows[$one.row].names[$one.variant] = $one.name)
| [.rows[.order[]]] as $rows
| ($variants - ["baseline"]) as $candidates
| ($candidates | map(. as $v | select(any($rows[]; .names.baseline and .names[$v]) | not)) | first) as $alone
| if $alone then error("no benchmark of \($alone) has the row of one of baseline (\([$rows[] | select(.names[$alone])][0].row) and \([$rows[] | select(.names.baseline)][0].row)): see gobench.rename") else . end
| if $go.pivot then pivoted($rows) else {rows: $rows} end
| {cpu: $cpu} + .
