package values

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
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

// positive is a number of which 0 means that it is not known.
func positive(value float64) float64 { return known(value, value != 0) }
