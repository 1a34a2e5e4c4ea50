// Package values makes the tables of a block from its record and its files: what was measured of each variant, and the
// ratios of candidates to the baseline. It reads only what stands in the block's directory and in the plan, so that the
// tables of stored blocks can be made again. The registry of tsduel/core/metrics.py says what the metrics mean.
package values

import (
	"encoding/csv"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"tsduel/host/record"
)

// tables have the columns of each file: those of tidy/ (tsduel/core/tables.py) that are of one block.
var tables = map[string][]string{
	"values": {"variant", "query_type", "metric", "value"},
	"pairs": {"candidate", "query_type", "metric", "log_ratio", "se", "n", "sittings", "sitting_sd",
		"second_effect"},
	"timeseries": {"variant", "part", "phase", "query_type", "elapsed_s", "metric", "value"},
	"checks":     {"variant", "phase", "query_type", "check", "expected", "actual", "ok", "message"},
	"phases":     {"variant", "part", "phase", "query_type", "begin", "end"},
}

// block collects the rows of a block.
type block struct {
	*record.Block
	plan  *record.Plan
	dir   string
	alive []string // the variants that did not fail
	roles []string // of all components; none if every variant has one
	rows  map[string][][]string
	whole map[[2]string]float64 // values that are of no query type or component, by variant and metric
	// Log ratios of each sitting, by candidate and metric, then by query type.
	bySitting map[[2]string]map[string]map[int]estimate
}

// Write writes the tables of a block into its directory, and keeps the ratios for the forecast in its record.
func Write(plan *record.Plan, of *record.Block, dir string) error {
	b := &block{Block: of, plan: plan, dir: dir, rows: map[string][][]string{},
		whole: map[[2]string]float64{}, bySitting: map[[2]string]map[string]map[int]estimate{}}
	if plan.Kind == "tsbs" {
		if err := b.measure(); err != nil {
			return err
		}
		b.forecast()
	}
	for _, c := range of.Checks {
		b.row("checks", c.Variant, c.Phase, c.QueryType, c.Check, text(c.Expected, 10), text(c.Actual, 10), c.OK, c.Message)
	}
	for _, p := range of.Phases {
		b.row("phases", p.Variant, p.Part, p.Phase, p.QueryType, fmt.Sprintf("%.6f", p.Begin), fmt.Sprintf("%.6f", p.End))
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if name == "values" || name == "pairs" { // some come out of maps
			slices.SortFunc(b.rows[name], slices.Compare)
		}
		if err := writeTable(filepath.Join(dir, name+".csv"), tables[name], b.rows[name]); err != nil {
			return err
		}
	}
	return nil
}

// WriteAll makes the tables of all finished blocks of a run again.
func WriteAll(runDir string) error {
	plan, err := record.LoadPlan(runDir)
	if err != nil {
		return err
	}
	paths, err := fs.Glob(os.DirFS(runDir), "raw/*/*/block.json")
	for _, path := range paths {
		dir := filepath.Join(runDir, filepath.Dir(path))
		if _, other := strconv.Atoi(filepath.Base(dir)); other != nil || err != nil { // of profiles, or partial
			continue
		}
		of := &record.Block{}
		if err = record.ReadJSON(filepath.Join(dir, "block.json"), of); err == nil {
			err = Write(plan, of, dir)
		}
	}
	return err
}

func writeTable(path string, columns []string, rows [][]string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	table := csv.NewWriter(file)
	_ = table.Write(columns)
	if err := table.WriteAll(rows); err != nil {
		file.Close()
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return file.Close()
}

// row adds a row to a table.
func (b *block) row(table string, values ...any) {
	var fields []string
	for _, value := range values {
		if number, is := value.(float64); is {
			value = text(number, -1)
		}
		fields = append(fields, fmt.Sprint(value))
	}
	b.rows[table] = append(b.rows[table], fields)
}

// text is a number with so many digits, -1 for all; whole ones have no point, and what is not known is empty.
func text(number float64, digits int) string {
	if math.IsNaN(number) {
		return ""
	}
	if number == math.Trunc(number) {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return strconv.FormatFloat(number, 'g', digits, 64)
}

// value adds what was measured of a variant; NaN and what a division by 0 gives is not known, and left out.
func (b *block) value(variant, metric, subject string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		b.row("values", variant, subject, metric, value)
		if subject == "" {
			b.whole[[2]string{variant, metric}] = value
		}
	}
}

func (b *block) baseline() string { return b.plan.Variants[0].Name }

// candidates are all variants that are alive but the baseline.
func (b *block) candidates() []string {
	return slices.DeleteFunc(slices.Clone(b.alive), func(name string) bool { return name == b.baseline() })
}

// each adds a value of each variant, divided by scale.
func (b *block) each(metric, subject string, values map[string]float64, scale float64) {
	for _, name := range b.alive {
		if value, has := values[name]; has {
			b.value(name, metric, subject, value/scale)
		}
	}
}

// measure adds the figures of all parts; of a variant that failed those from before that.
func (b *block) measure() error {
	failed := map[string]bool{}
	for _, f := range b.Failures {
		failed[f.Variant] = true
	}
	for _, v := range b.plan.Variants {
		if !failed[v.Name] {
			b.alive = append(b.alive, v.Name)
		}
	}
	whole := !failed[""] && b.Void == ""
	b.roles = b.plan.Roles()
	if b.plan.Design.StartFrom == "baseline" { // only the baseline loaded data, so its load is not compared
		if !whole || b.Upgrade == nil {
			return nil
		}
		return b.upgrade(b.Upgrade)
	}
	for _, v := range b.plan.Variants {
		if solo, has := b.Solo[v.Name]; has {
			b.solo(v, solo)
		}
	}
	if !whole {
		return nil
	}
	b.rates()
	if b.Duel == nil {
		return nil
	}
	return b.duel(b.Duel)
}

var forecast = regexp.MustCompile(`^(duel|upgrade_(right_after|half|new))_(typical_ms|cpu_us)$`)

// forecast keeps one ratio of each metric by which a run says between two blocks what it will be able to show.
func (b *block) forecast() {
	for key, subjects := range b.bySitting {
		if forecast.MatchString(key[1]) {
			var logs []float64
			for _, of := range together(subjects) {
				logs = append(logs, of.ratio)
			}
			b.Ratio(key[0], key[1], mean(logs))
		}
	}
	for _, name := range b.candidates() {
		for _, metric := range []string{"load_rate", "upgrade_ingest_rate", "upgrade_ingest_cpu_seconds"} {
			b.Ratio(name, metric, math.Log(b.whole[[2]string{name, metric}]/b.whole[[2]string{b.baseline(), metric}]))
		}
	}
}

// phase is a phase of a variant, or its last attempt if it was started again; nil if there is none.
func (b *block) phase(variant, part, name, queryType string) (last *record.Phase) {
	for i, p := range b.Phases {
		if p.Variant == variant && p.Part == part && p.Phase == name && p.QueryType == queryType {
			last = &b.Phases[i]
		}
	}
	return last
}

func floats[N int | int64 | float64](values map[string]N) map[string]float64 {
	all := map[string]float64{}
	for name, value := range values {
		all[name] = float64(value)
	}
	return all
}

func known(value float64, is bool) float64 {
	if !is {
		return math.NaN()
	}
	return value
}

// positive is a number of which 0 means that it is not known.
func positive(value float64) float64 { return known(value, value != 0) }
