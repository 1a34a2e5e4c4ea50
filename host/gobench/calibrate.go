package gobench

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tsduel/host/record"
)

// A row is run in so many short turns if what each of its processes costs beside its timed work (its set-up) stays small: all of
// them at most half of what is timed, and each turn at least a twentieth of a second.
var turns = []int64{8, 4}

const (
	setupShare   = 0.5
	shortestTurn = 0.05
)

// found is a benchmark of the warm-up.
type found struct {
	variant string
	result
	row   string
	setup float64 // seconds; infinite where it was not looked at
}

// Calibrate reads the warm-up block: which benchmarks there are, which of them stand in one row, how many operations each does, and
// which are run in short turns. What cannot be compared is said before anything is measured. dir is that of the block.
func Calibrate(plan *record.Plan, dir string) (*record.Calibration, error) {
	rename, err := renaming(plan.GoBench)
	if err != nil {
		return nil, err
	}
	cpu := cpus(plan)
	var all []found
	for _, v := range plan.Variants {
		text, err := os.ReadFile(filepath.Join(dir, v.Name, "bench.txt"))
		if err != nil {
			return nil, fmt.Errorf("reading the warm-up of %s: %w", v.Name, err)
		}
		setup := setups(filepath.Join(dir, v.Name, setupFile))
		for _, r := range results(string(text), cpu) {
			seconds, ok := setup[r.name]
			if !ok {
				seconds = math.Inf(1)
			}
			all = append(all, found{v.Name, r, rename(r.name), seconds})
		}
	}
	if len(all) == 0 {
		return nil, record.FailedError("the warm-up block found no benchmark: see %s", filepath.Join(dir, "block.json"))
	}
	c := &record.Calibration{CPU: cpu}
	if c.Rows, err = rows(all, plan); err != nil {
		return nil, err
	}
	if plan.GoBench.Pivot != nil {
		err = pivot(c, plan.GoBench.Pivot.Rows, plan.GoBench.Pivot.Column)
	}
	return c, err
}

// setups are seconds by name; nothing where the warm-up did not look.
func setups(path string) map[string]float64 {
	known := map[string]float64{}
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if seconds, err := strconv.ParseFloat(value, 64); err == nil {
			known[name] = seconds
		}
	}
	return known
}

// renaming makes the function from a name to its row.
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
				name = name[:at[0]] + filled(rule.To, name, at) + name[at[1]:]
			}
		}
		return strings.TrimPrefix(name, "Benchmark")
	}, nil
}

var group = regexp.MustCompile(`\$[1-9]`)

// filled puts the groups of a match for $1 to $9.
func filled(to, name string, at []int) string {
	return group.ReplaceAllStringFunc(to, func(word string) string {
		if g := 2 * int(word[1]-'0'); g+1 < len(at) && at[g] >= 0 {
			return name[at[g]:at[g+1]]
		}
		return ""
	})
}

// rows joins the variants' benchmarks, in the order in which they were printed.
func rows(all []found, plan *record.Plan) ([]record.CalibrationRow, error) {
	var order []string
	by := map[string][]found{}
	for _, f := range all {
		for _, other := range by[f.row] {
			if other.variant == f.variant {
				return nil, record.UserError("gobench.rename: %s and %s of %s would both be the row %s", other.name, f.name, f.variant, f.row)
			}
		}
		if by[f.row] == nil {
			order = append(order, f.row)
		}
		by[f.row] = append(by[f.row], f)
	}
	var rows []record.CalibrationRow
	for _, name := range order {
		row := record.CalibrationRow{Row: name, Names: map[string]string{}, Parts: 1}
		for _, f := range by[name] {
			row.Names[f.variant] = f.name
			row.Count = max(row.Count, f.count)
		}
		if len(by[name]) > 1 && (plan.GoBench.Alternate == nil || *plan.GoBench.Alternate) {
			splitIntoTurns(&row, by[name])
		}
		rows = append(rows, row)
	}
	return rows, rowsInCommon(rows, plan)
}

// splitIntoTurns splits a row's operations over short turns where its set-up allows that.
func splitIntoTurns(row *record.CalibrationRow, of []found) {
	timed, setup := math.Inf(1), 0.0
	for _, f := range of {
		timed, setup = min(timed, float64(row.Count)*f.seconds()), max(setup, f.setup)
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

// rowsInCommon says which candidate has no row in common with the baseline.
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
		if !slices.ContainsFunc(rows, func(r record.CalibrationRow) bool { return r.Names[baseline] != "" && r.Names[v.Name] != "" }) {
			return record.UserError("no benchmark of %s has the row of one of %s (%s and %s): see gobench.rename", v.Name, baseline, first(v.Name), first(baseline))
		}
	}
	return nil
}

// pivot gives every row its cell: which row and which column of the table it is.
func pivot(c *record.Calibration, keys []string, column string) error {
	key := func(part string) string {
		if name, _, ok := strings.Cut(part, "="); ok {
			return name
		}
		return ""
	}
	example := c.Rows[0].Row
	most, taken := map[string]int64{}, map[record.TableCell]string{}
	c.Rows = slices.DeleteFunc(c.Rows, func(row record.CalibrationRow) bool {
		return !slices.ContainsFunc(strings.Split(row.Row, "/"), func(part string) bool { return key(part) == column })
	})
	for i, row := range c.Rows {
		cell, kept := record.TableCell{}, []string{}
		for _, part := range strings.Split(row.Row, "/") {
			switch k := key(part); {
			case k == column && cell.Column == "":
				_, cell.Column, _ = strings.Cut(part, "=")
			case k != column && (len(keys) == 0 || k == "" || slices.Contains(keys, k)):
				kept = append(kept, part)
			}
		}
		cell.Row = strings.Join(kept, "/")
		if other, ok := taken[cell]; ok {
			return record.UserError("gobench.pivot: %s and %s would be one cell: name more keys in gobench.pivot.rows", other, row.Row)
		}
		taken[cell], c.Rows[i].Cell, most[cell.Row] = row.Row, &cell, max(most[cell.Row], row.Count)
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
