package gobench

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tsduel/host/record"
)

// A row runs in 8 or 4 short turns if the set-ups of its processes (their time beside the timed work) take
// setupShare of the timed work at most, and each turn takes shortestTurn (seconds) at least.
var turns = []int64{8, 4}

const (
	setupShare   = 0.5
	shortestTurn = 0.05
)

type benchmark struct {
	variant string
	result
	row   string
	setup float64 // seconds; infinite if it was not measured
}

// Calibrate reads the warm-up block in dir: which benchmarks there are, which of them form a row, how many
// operations each does, and which run in short turns. It refuses benchmarks that cannot be compared.
func Calibrate(plan *record.Plan, dir string) (*record.Calibration, error) {
	rename, err := renaming(plan.GoBench)
	if err != nil {
		return nil, err
	}
	cpu := cpus(plan)
	var all []benchmark
	for _, v := range plan.Variants {
		text, err := os.ReadFile(filepath.Join(dir, v.Name, "bench.txt"))
		if err != nil {
			return nil, fmt.Errorf("reading the warm-up of %s: %w", v.Name, err)
		}
		setup := map[string]float64{}
		_ = record.ReadJSON(filepath.Join(dir, v.Name, setupFile), &setup) // without the file none was measured
		printed, _ := ofGo(results(string(text), cpu), string(text))
		for _, r := range printed {
			seconds, ok := setup[r.name]
			if !ok {
				seconds = math.Inf(1)
			}
			all = append(all, benchmark{v.Name, r, rename(r.name), seconds})
		}
	}
	var warmup record.Block
	_ = record.ReadJSON(filepath.Join(dir, "block.json"), &warmup) // which tells more than that a row is missing
	if len(all) == 0 {
		return nil, record.FailedError("the warm-up block found no benchmark%s: see %s", because(warmup.Failures),
			filepath.Join(dir, "block.json"))
	}
	c := &record.Calibration{CPU: cpu}
	if c.Rows, err = rows(all, plan); err != nil {
		if why := because(warmup.Failures); why != "" {
			return nil, record.FailedError("nothing can be compared%s", why)
		}
		return nil, err
	}
	if plan.GoBench.Pivot != nil {
		err = pivot(c, plan.GoBench.Pivot.Rows, plan.GoBench.Pivot.Column)
	}
	return c, err
}

// because says which variant failed first and why; "" if none did.
func because(failures []record.Failure) string {
	if len(failures) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", failures[0].Variant, failures[0].Message)
}

// renaming returns the function from a benchmark's name to its row.
func renaming(g *record.GoBench) (func(string) string, error) {
	patterns := make([]*regexp.Regexp, len(g.Rename))
	for i, rule := range g.Rename {
		var err error
		if patterns[i], err = regexp.Compile(rule.Match); err != nil {
			return nil, record.UserError("gobench.rename: %q is no regular expression of Go: %v", rule.Match, err)
		}
	}
	return func(name string) string {
		for i, rule := range g.Rename {
			if rule.Drop != nil {
				if parts := strings.Split(name, "/"); *rule.Drop < len(parts) {
					name = strings.Join(slices.Delete(parts, *rule.Drop, *rule.Drop+1), "/")
				}
			} else if at := patterns[i].FindStringSubmatchIndex(name); at != nil {
				to := group.ReplaceAllString(strings.ReplaceAll(rule.To, "$", "$$"), "$${$1}") // $1x is ${1}x
				name = name[:at[0]] + string(patterns[i].ExpandString(nil, to, name, at)) + name[at[1]:]
			}
		}
		return strings.TrimPrefix(name, "Benchmark")
	}, nil
}

// group matches $1 to $9 in a text whose dollars are doubled.
var group = regexp.MustCompile(`\$\$([1-9])`)

// rows joins the variants' benchmarks, in the order in which they were printed.
func rows(all []benchmark, plan *record.Plan) ([]record.CalibrationRow, error) {
	var rows []record.CalibrationRow
	byRow := map[string][]benchmark{}
	for _, b := range all {
		for _, other := range byRow[b.row] {
			if other.variant == b.variant {
				return nil, record.UserError("gobench.rename: %s and %s of %s would both be the row %s",
					other.name, b.name, b.variant, b.row)
			}
		}
		if byRow[b.row] == nil {
			rows = append(rows, record.CalibrationRow{Row: b.row, Names: map[string]string{}, Parts: 1})
		}
		byRow[b.row] = append(byRow[b.row], b)
	}
	for i := range rows {
		row := &rows[i]
		benchmarks := byRow[row.Row]
		for _, b := range benchmarks {
			row.Names[b.variant] = b.name
			row.Count = max(row.Count, b.count)
		}
		if len(benchmarks) > 1 && (plan.GoBench.Alternate == nil || *plan.GoBench.Alternate) {
			splitIntoTurns(row, benchmarks)
		}
	}
	return rows, rowsInCommon(rows, plan)
}

// splitIntoTurns splits a row's operations into short turns if its set-ups allow that.
func splitIntoTurns(row *record.CalibrationRow, benchmarks []benchmark) {
	timed, setup := math.Inf(1), 0.0
	for _, b := range benchmarks {
		timed, setup = min(timed, float64(row.Count)*b.seconds()), max(setup, b.setup)
	}
	if !math.IsInf(setup, 1) {
		row.SetupS = setup
	}
	for _, n := range turns {
		if parts := float64(n); parts*setup <= setupShare*timed && timed >= parts*shortestTurn && row.Count >= n {
			row.Parts, row.Count = int(n), (row.Count+n-1)/n
			return
		}
	}
}

// rowsInCommon is the error of a candidate that has no row in common with the baseline.
func rowsInCommon(rows []record.CalibrationRow, plan *record.Plan) error {
	baseline := plan.Variants[0].Name
	first := func(variant string) string {
		i := slices.IndexFunc(rows, func(r record.CalibrationRow) bool { return r.Names[variant] != "" })
		if i < 0 {
			return "none"
		}
		return rows[i].Row
	}
	for _, v := range plan.Variants[1:] {
		common := func(r record.CalibrationRow) bool { return r.Names[baseline] != "" && r.Names[v.Name] != "" }
		if !slices.ContainsFunc(rows, common) {
			return record.UserError("no benchmark of %s has the row of one of %s (%s and %s): see gobench.rename",
				v.Name, baseline, first(v.Name), first(baseline))
		}
	}
	return nil
}

// pivot gives every row its cell, a row and a column of the table. Rows without the column are removed.
func pivot(c *record.Calibration, keys []string, column string) error {
	example := c.Rows[0].Row
	most, taken := map[string]int64{}, map[record.TableCell]string{}
	c.Rows = slices.DeleteFunc(c.Rows, func(row record.CalibrationRow) bool {
		return !strings.Contains("/"+row.Row, "/"+column+"=")
	})
	for i, row := range c.Rows {
		cell, kept := record.TableCell{}, []string{}
		for part := range strings.SplitSeq(row.Row, "/") {
			switch key, value, has := strings.Cut(part, "="); {
			case has && key == column:
				if value == "" {
					return record.UserError("gobench.pivot: %s has no value of %s=: give that benchmark a name there", row.Row, column)
				}
				cell.Column = cmp.Or(cell.Column, value)
			case !has || key == "" || len(keys) == 0 || slices.Contains(keys, key):
				kept = append(kept, part)
			}
		}
		cell.Row = strings.Join(kept, "/")
		if other, ok := taken[cell]; ok {
			return record.UserError("gobench.pivot: %s and %s would be one cell: name more keys in gobench.pivot.rows",
				other, row.Row)
		}
		taken[cell], c.Rows[i].Cell = row.Row, &cell
		most[cell.Row] = max(most[cell.Row], row.Count)
		if !slices.Contains(c.Columns, cell.Column) {
			c.Columns = append(c.Columns, cell.Column)
		}
	}
	if len(c.Columns) < 2 {
		return record.UserError("gobench.pivot: the names hold fewer than two values of %s=, as in %s", column, example)
	}
	for i, row := range c.Rows {
		c.Rows[i].Count = most[row.Cell.Row]
	}
	return nil
}
