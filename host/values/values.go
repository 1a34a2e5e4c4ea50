// Package values makes the tables of a block from its record and its files: what was measured of each variant, and the
// ratios of candidates to the baseline. It reads only what stands in the block's directory and in the plan, so that the
// tables of stored blocks can be made again. The registry of tsduel/core/metrics.py says what the metrics mean.
package values

import (
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
