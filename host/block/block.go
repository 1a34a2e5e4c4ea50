// Package block runs one block: each variant alone (solo), then all together (duel), then each alone again at
// fixed rates (mixed, capacity). In an upgrade all variants start on what the baseline has loaded.
package block

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"tsduel/host/machine"
	"tsduel/host/noise"
	"tsduel/host/profiles"
	"tsduel/host/record"
)

// Run runs a block into Spec.Dir and returns its record, also of a failed block. An error is never a
// variant's fault: ctx has ended, a disk is full, or tsduel has a bug.
func Run(ctx context.Context, spec record.Spec) (*record.Block, error) {
	return runBlock(ctx, spec, nil)
}

func runBlock(ctx context.Context, spec record.Spec, p *profiles.Reader) (_ *record.Block, err error) {
	f := newFrame(spec, p)
	if f.given.Adapters, err = filepath.Abs(filepath.Join(record.Project(spec.RunDir), "scripts", "targets")); err != nil {
		return nil, err
	}
	defer f.leave()
	end := noise.Watch(f.block)
	err = f.inTime(ctx)
	ended := machine.EndAll(f.Scratch)
	err = f.blameLogs(err)
	if err := cmp.Or(ctx.Err(), err, ended); err != nil {
		return nil, err
	}
	end()
	if f.block.Status == record.OK {
		if err := machine.Prepare(machine.Directories{Remove: []string{f.layout.PlacesDir()}}); err != nil {
			return nil, err
		}
	}
	timed := []string{"load", "query", "exchange", "before", "ingest", "after", "mixed", "rung"}
	for _, p := range f.block.Phases {
		if slices.Contains(timed, p.Phase) {
			f.block.TimedS += p.End - p.Begin
		}
	}
	f.block.Finish(f.Plan.Variants)
	return f.block, nil
}

// inTime runs the block, and fails it when it has taken longer than the plan allows.
func (f *frame) inTime(ctx context.Context) error {
	longest := f.Plan.Watchdog.BlockS
	if longest == nil {
		return f.run(ctx)
	}
	bounded, end := context.WithTimeout(ctx, record.Seconds(*longest))
	defer end()
	if err := f.run(bounded); bounded.Err() == nil || ctx.Err() != nil {
		return err
	}
	f.block.Fail(record.Failure{Message: fmt.Sprintf("it took longer than %g s (watchdog.block_s)", *longest)})
	return nil
}

func (f *frame) run(ctx context.Context) error {
	for _, v := range f.Plan.Variants {
		f.variants[v.Name] = newVariant(f, v)
	}
	if err := f.prepare(); err != nil {
		return err
	}
	for _, p := range parts(f.Plan, f.Row) {
		if f.decided() {
			return nil
		}
		if err := p.run(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// part is a row of what a block does.
type part struct {
	planned bool
	phases  int // how many a view is to expect
	run     func(context.Context, *frame) error
}

// parts are those of a block, in their order.
func parts(plan *record.Plan, row record.BlockRow) []part {
	variants, types, warmup := len(plan.Variants), len(row.QueryTypes), row.Kind == "warmup"
	sittings, loads := max(1, plan.Duel.Sittings), max(1, plan.Duel.LoadSittings)
	if warmup {
		sittings, loads = 1, 1
	}
	// A run that loads in turn also loads alone in its warm-up block, if the plan has data for that.
	solo := !plan.Deployed() && (plan.Design.Load != record.InTurn || warmup && plan.Workload.Alone != nil)
	soloPhases := 5 // canary, start, load, settle, stop
	if plan.Queries.Solo {
		soloPhases += types
	}
	upgrades, loading := plan.Design.StartFrom == "baseline", variants
	if upgrades { // the others start on what the baseline has loaded
		loading = 1
	}
	duelPhases := 2 + sittings*(2+types) // idle twice; start, stop
	if plan.Duel.Batches {
		duelPhases += 4 * loads // start, exchange, settle, stop
	}
	rungs := 0
	if plan.Capacity != nil {
		rungs = len(plan.Capacity.Ladder)
	}
	return slices.DeleteFunc([]part{
		{solo, soloPhases * loading, runSolo},
		{plan.Duel.Enabled && !upgrades, duelPhases, func(ctx context.Context, f *frame) error {
			return runDuel(ctx, f, "", f.Row.QueryTypes, &f.block.Duel)
		}},
		// Copy, start, ingest, settle, and a candidate's downgrade; two duels, one over two windows.
		{upgrades, 5*variants - 1 + 2*4 + 3*types, runUpgrade},
		{plan.Mixed != nil, 3 * variants, atRates(record.InMixed, (*rates).mixed)}, // start, mixed, stop
		{plan.Capacity != nil, (2 + rungs) * variants, atRates(record.InCapacity, (*rates).ladder)},
	}, func(p part) bool { return !p.planned })
}

// Phases is how many phases a block will have: a view's progress bar needs it.
func Phases(plan *record.Plan, row record.BlockRow, _ *record.Calibration) (phases int) {
	for _, p := range parts(plan, row) {
		phases += p.phases
	}
	return phases
}
