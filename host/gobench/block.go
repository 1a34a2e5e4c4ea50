package gobench

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tsduel/host/noise"
	"tsduel/host/record"
)

type block struct {
	record.Spec
	*record.Block
	sides   map[string]*side
	require []requirement
	out     map[string]bool               // variants that have failed
	seconds map[string]map[string]float64 // by row and variant, of all processes
}

var canary = noise.Canary // tests set a short one

// failing records the failure of a benchmark, and returns any other error.
func (b *block) failing(variant, phase, row string, err error) error {
	own, ok := errors.AsType[failure](err)
	if !ok {
		return err
	}
	b.out[variant] = true
	b.Fail(record.Failure{Variant: variant, Part: record.Bench, Phase: phase, QueryType: row,
		Message: b.Hidden.Mask(string(own))})
	return nil
}

func (b *block) canary(variant string) error {
	taken, err := canary(b.Scratch)
	b.Solo[variant] = record.SoloRecord{Canary: taken, Sizes: map[string]int64{}, CPUNS: map[string]int64{}}
	return err
}

// phase measures between two edges of the machine's counters.
func (b *block) phase(p record.Phase, measure func(*record.Phase) error) error {
	p.Part, p.Attempts = record.Bench, 1
	b.Events.PhaseStart(b.Row.Block, p)
	before := noise.Take()
	p.Begin = record.Epoch(time.Now())
	err := measure(&p)
	p.End = record.Epoch(time.Now())
	p.Noise = noise.Between(before, noise.Take())
	if err == nil {
		b.Phases, b.TimedS = append(b.Phases, p), b.TimedS+p.End-p.Begin
		b.Events.PhaseEnd(b.Row.Block, p)
	}
	return err
}

func counted(p *record.Phase, o output) {
	p.ClientUserS += o.User.Seconds()
	p.ClientSystemS += o.System.Seconds()
	p.Exit = cmp.Or(p.Exit, o.Code)
}

// check records a check, for several processes of a row the first or the failed one, and returns its error.
func (b *block) check(check, variant, row string, expected, actual float64, wrong error) error {
	if wrong == nil && check != "bench_required" && expected != actual {
		wrong = failed("%s printed a result of %g operations, and %g were asked for", row, actual, expected)
	}
	c := record.Check{Check: check, Variant: variant, Phase: phaseName, QueryType: row, Expected: expected,
		Actual: actual, OK: wrong == nil}
	if wrong != nil {
		c.Message = b.Hidden.Mask(wrong.Error())
	}
	i := slices.IndexFunc(b.Checks, func(o record.Check) bool {
		return o.Check == check && o.Variant == variant && o.QueryType == row && check != "bench_required"
	})
	if i < 0 {
		b.Checks = append(b.Checks, c)
	} else if !c.OK {
		b.Checks[i] = c
	}
	return wrong
}

const (
	phaseName = "bench"
	setupFile = "setup.json" // seconds by the names of benchmarks
)
