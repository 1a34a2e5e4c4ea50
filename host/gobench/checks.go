package gobench

import (
	"slices"
	"strings"

	"tsduel/host/record"
)

// checkFound checks that each row printed a result for all variants. Nothing is wrong with what all of them skip.
func (b *block) checkFound() error {
	rename, err := renaming(b.Plan.GoBench)
	if err != nil {
		return err
	}
	var rows []string
	byRow, counts := map[string]map[string]outcome{}, map[string]bool{}
	for _, v := range b.Plan.Variants {
		for _, o := range b.sides[v.Name].found.outcomes {
			row := rename(o.name)
			if byRow[row] == nil {
				rows, byRow[row] = append(rows, row), map[string]outcome{}
			}
			byRow[row][v.Name], counts[row] = o, counts[row] || !o.skipped
		}
	}
	for _, row := range rows {
		if slices.ContainsFunc(rows, func(other string) bool { return strings.HasPrefix(other, row+"/") }) {
			continue // what one variant did not begin has benchmarks inside it, as another shows
		}
		for _, v := range b.Plan.Variants {
			o, is := byRow[row][v.Name]
			if above := whyAbove(byRow, row, v.Name); !is && above != "" {
				o.why = above
			} else if f := b.sides[v.Name].found; !is && f.ended != "" {
				o.why = f.notRun(row)
			} else if !is {
				o.why = "there is no benchmark for the row " + row + ": name those that all have (BENCH=), or see gobench.rename"
			}
			c := record.Check{Check: "bench_found", Variant: v.Name, Phase: "find", QueryType: row, Expected: 1, OK: o.why == "",
				Message: b.Hidden.Mask(o.why)}
			if c.OK {
				c.Actual = 1
			}
			if counts[row] {
				b.Checks = append(b.Checks, c)
			}
		}
	}
	return nil
}

// whyAbove is why a benchmark around this row's has come to nothing for a variant, before it began this one.
func whyAbove(byRow map[string]map[string]outcome, row, variant string) string {
	for at := strings.LastIndexByte(row, '/'); at > 0; at = strings.LastIndexByte(row[:at], '/') {
		if why := byRow[row[:at]][variant].why; why != "" {
			return why
		}
	}
	return ""
}

func (b *block) checks(variant string, row record.CalibrationRow, o output, err error) error {
	name := row.Names[variant]
	if err = b.check("bench_exit", variant, row.Row, 0, float64(o.Code), err); err != nil {
		return err
	}
	if len(o.results) == 1 && o.results[0].name == name {
		err = b.check("bench_result", variant, row.Row, float64(row.Count), float64(o.results[0].count), nil)
	} else {
		err = b.check("bench_result", variant, row.Row, float64(row.Count), 0,
			failed("%s printed no result, or more than one: %s", name, strings.Join(namesOf(o.results, 5), " ")))
	}
	for _, rule := range b.require {
		if err != nil {
			return err
		}
		var missing error
		least := rule.least(o.text, o.results)
		if !(least > 0) {
			missing = failed("%s: %s is not there, or not above zero", name, rule.what)
		}
		err = b.check("bench_required", variant, row.Row, 0, least, missing)
	}
	return err
}
