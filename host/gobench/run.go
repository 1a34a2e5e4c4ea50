// Package gobench runs blocks of Go benchmarks, each in its own processes and clean directories.
package gobench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tsduel/host/exchange"
	"tsduel/host/noise"
	"tsduel/host/record"
)

// Run runs one block: the warm-up finds the benchmarks, the other blocks measure them. A benchmark that fails
// is a failure of its variant in the record, and not an error.
func Run(ctx context.Context, spec record.Spec) (*record.Block, error) {
	b := &block{Spec: spec, Block: record.NewBlock(spec.Row), sides: map[string]*side{}, out: map[string]bool{},
		seconds: map[string]map[string]float64{}}
	for _, rule := range spec.Plan.GoBench.Require {
		r := requirement{what: cmp.Or(rule.Metric, rule.Output)}
		if rule.Output != "" {
			var err error
			if r.output, err = regexp.Compile("(?m)" + rule.Output); err != nil {
				return nil, record.UserError("gobench.require: %q is no regular expression of Go: %v", rule.Output, err)
			}
		}
		b.require = append(b.require, r)
	}
	end := noise.Watch(b.Block)
	err := b.run(ctx)
	for _, s := range b.sides {
		err = errors.Join(err, s.close())
	}
	err = cmp.Or(err, tidyUp(&spec))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	end()
	b.ratios()
	b.Finish(b.Plan.Variants)
	return b.Block, err
}

// Phases is how many phases a block will have.
func Phases(_ *record.Plan, row record.BlockRow, c *record.Calibration) int {
	if c == nil || row.Kind == "warmup" {
		return len(row.Order)
	}
	return len(row.Order) * len(c.Rows)
}

func tidyUp(spec *record.Spec) error {
	return errors.Join(record.Wipe(filepath.Join(spec.Scratch, "bench")), record.RemoveTree(placesDir(spec)))
}

func (b *block) run(ctx context.Context) error {
	for _, name := range b.Row.Order {
		s, err := open(&b.Spec, name, filepath.Join(b.Dir, name))
		if err != nil {
			return err
		}
		b.sides[name] = s
	}
	if b.Row.Kind == "warmup" {
		for _, name := range b.Row.Order { // all variants, even if one has failed, to report all failures at once
			if err := b.canary(name); err != nil {
				return err
			}
			if err := b.failing(name, "find", "", b.find(ctx, b.sides[name])); err != nil {
				return err
			}
		}
		return b.checkFound()
	}
	return b.measure(ctx)
}

// find runs all benchmarks of a variant in one process, and measures their set-ups unless that takes long.
func (b *block) find(ctx context.Context, s *side) error {
	what, g := "the warm-up of "+s.pattern, b.Plan.GoBench
	benchtime := record.Decimal(g.Seconds) + "s"
	if g.Count != nil {
		benchtime = fmt.Sprintf("%dx", *g.Count)
	}
	var o output
	err := b.phase(record.Phase{Variant: s.name, Phase: "find"}, func(p *record.Phase) (err error) {
		o, err = s.bench(ctx, what, "-test.bench="+s.pattern, "-test.benchtime="+benchtime)
		counted(p, o)
		return err
	})
	s.found = outcomes(o, strings.TrimPrefix(fmt.Sprint(err), what+" "))
	if s.found.ended != "" && ctx.Err() == nil {
		s.found.never(b.listed(ctx, s), s.pattern)
	}
	if own := s.found.own; len(own) > 0 {
		b.Events.Emit("note", record.Fields{"message": fmt.Sprintf("%s: its benchmarks print lines that look like results "+
			"(%s): they are left out; b.ReportMetric gives a benchmark more metrics", s.name, strings.Join(own, ", "))})
	}
	if err != nil {
		return err
	}
	if len(o.results) == 0 {
		return failed("the pattern %s matches no benchmark of %s; there are: %s", s.pattern, s.name, b.benchmarks(ctx, s))
	}
	untimed := o.seconds
	for _, r := range o.results {
		row := record.CalibrationRow{Row: strings.TrimPrefix(r.name, "Benchmark"), Count: r.count,
			Names: map[string]string{s.name: r.name}}
		if err := b.checks(s.name, row, output{text: o.text, results: []result{r}}, nil); err != nil {
			return err
		}
		untimed -= float64(r.count) * r.seconds()
	}
	// Go repeats the set-up about five times while it searches the number of operations.
	if len(b.Plan.Variants) == 1 || untimed > 3*g.Seconds*float64(len(o.results)) {
		return nil
	}
	return b.probe(ctx, s, o.results)
}

// probe measures the set-up of each benchmark, the time of its process beside the timed work.
func (b *block) probe(ctx context.Context, s *side, benchmarks []result) error {
	dir := filepath.Join(b.Dir, s.name, "probe")
	probed, err := open(&b.Spec, s.name, dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer probed.close()
	setup := map[string]float64{}
	for _, r := range benchmarks {
		// As in a block, Go tries one operation first.
		o, err := probed.bench(ctx, r.name, "-test.bench="+pattern(r.name), "-test.benchtime=2x")
		if err != nil {
			return err
		}
		for _, timed := range o.results {
			setup[r.name] = o.seconds - float64(timed.count)*timed.seconds()
		}
	}
	return record.WriteJSON(filepath.Join(b.Dir, s.name, setupFile), setup)
}

// benchmarks lists the benchmarks of the binary, and those that other variants have run.
func (b *block) benchmarks(ctx context.Context, s *side) string {
	names := b.listed(ctx, s)
	slices.Sort(names)
	names = names[:min(len(names), 30)]
	for _, other := range b.Row.Order {
		all := results(section(b.sides[other].stdout, 0, size(b.sides[other].stdout)), s.cpu)
		names = append(names, namesOf(all, 20)...)
	}
	return cmp.Or(strings.Join(slices.Compact(names), ", "), "none")
}

// listed returns the benchmarks of the binary, without those inside them.
func (b *block) listed(ctx context.Context, s *side) (names []string) {
	list, _ := s.bench(ctx, "the list", "-test.list=^Benchmark") // an error, since the list does not end with PASS
	for line := range strings.Lines(list.text) {
		if strings.HasPrefix(line, "Benchmark") {
			names = append(names, strings.TrimSpace(line))
		}
	}
	return names
}

// measure runs all rows in an order drawn for the block: those in short turns, then the others by variant.
func (b *block) measure(ctx context.Context) error {
	rows := slices.Clone(b.Calibration.Rows)
	draw := rand.New(rand.NewPCG(uint64(b.Plan.Design.Seed), uint64(b.Row.Block)))
	draw.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	short := slices.ContainsFunc(rows, func(r record.CalibrationRow) bool { return r.Parts > 1 })
	if short {
		if err := b.canary(b.Row.Order[0]); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if row.Parts > 1 {
			if err := b.alternate(ctx, row); err != nil || b.decided() {
				return err
			}
		}
	}
	rows = slices.DeleteFunc(rows, func(r record.CalibrationRow) bool { return r.Parts > 1 })
	for i, name := range b.Row.Order {
		if len(rows) > 0 && (i > 0 || !short) {
			if err := b.canary(name); err != nil {
				return err
			}
		}
		if err := b.alone(ctx, b.sides[name], rows); err != nil || b.decided() {
			return err
		}
	}
	return nil
}

// decided says whether nothing is left to compare in this block.
func (b *block) decided() bool {
	candidates := slices.ContainsFunc(b.Plan.Variants[1:], func(v record.Variant) bool { return !b.out[v.Name] })
	return b.out[b.Plan.Variants[0].Name] || len(b.Plan.Variants) > 1 && !candidates
}

func (b *block) alone(ctx context.Context, s *side, rows []record.CalibrationRow) error {
	for _, row := range rows {
		if b.out[s.name] || row.Names[s.name] == "" {
			continue
		}
		err := b.phase(record.Phase{Variant: s.name, Phase: phaseName, QueryType: row.Row}, func(p *record.Phase) error {
			return b.process(ctx, p, s, row)
		})
		if err := b.failing(s.name, phaseName, row.Row, err); err != nil {
			return err
		}
	}
	return nil
}

// alternate runs one row of all variants in short turns, B C C B.
func (b *block) alternate(ctx context.Context, row record.CalibrationRow) error {
	return b.phase(record.Phase{Phase: phaseName, QueryType: row.Row}, func(p *record.Phase) error {
		orders := exchange.Orders(b.Row.Order)
		for k := range row.Parts {
			for _, name := range orders[k%len(orders)] {
				if b.out[name] || row.Names[name] == "" {
					continue
				}
				if err := b.failing(name, phaseName, row.Row, b.process(ctx, p, b.sides[name], row)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// process runs one process of a row, and checks its result.
func (b *block) process(ctx context.Context, p *record.Phase, s *side, row record.CalibrationRow) error {
	name := row.Names[s.name]
	o, err := s.bench(ctx, name, "-test.bench="+pattern(name), fmt.Sprintf("-test.benchtime=%dx", row.Count))
	counted(p, o)
	p.Count += row.Count
	if err == nil {
		_, err = fmt.Fprintf(s.index, "%s\t%d\t%d\n", row.Row, o.from, o.to)
	}
	if err = b.checks(s.name, row, o, err); err == nil {
		if b.seconds[row.Row] == nil {
			b.seconds[row.Row] = map[string]float64{}
		}
		b.seconds[row.Row][s.name] += o.results[0].seconds()
	}
	return err
}

// ratios keeps the mean over rows of ln(candidate/baseline) in time, for the forecast.
func (b *block) ratios() {
	for _, v := range b.Plan.Variants[1:] {
		var sum, n float64
		for _, times := range b.seconds {
			if base, own := times[b.Plan.Variants[0].Name], times[v.Name]; base > 0 && own > 0 && !b.out[v.Name] {
				sum, n = sum+math.Log(own/base), n+1
			}
		}
		b.Ratio(v.Name, "sec/op", sum/n) // no number without rows
	}
}
