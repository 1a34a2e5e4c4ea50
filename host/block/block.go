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
	upgrades := f.Plan.Design.StartFrom == "baseline"
	// A run that loads in turn also loads alone in its warm-up block, if the plan has data for that.
	loadsAlone := !f.loadsInTurn() || f.Row.Kind == "warmup" && f.Plan.Workload.Alone != nil
	order := f.Row.Order
	if f.Plan.Design.LoadedBy == "baseline" { // the others read what it has loaded
		order = slices.Insert(without(order, f.Plan.Variants[0].Name), 0, f.Plan.Variants[0].Name)
	}
	err := f.inOrder(order, func(v *variant) error {
		if f.decided() || !loadsAlone || f.Plan.Deployed() || upgrades && v.Name != f.Plan.Variants[0].Name {
			return nil
		}
		return (&alone{variant: v}).run(ctx, f.loaded || v.Name != f.loadedBy(v.Name))
	})
	if err != nil {
		return err
	}
	if !f.loadsInTurn() {
		if err := f.markLoaded(); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		planned bool
		run     func(context.Context, *frame) error
	}{
		{f.Plan.Duel.Enabled && !upgrades, func(ctx context.Context, f *frame) error {
			return runDuel(ctx, f, "", f.Row.QueryTypes, &f.block.Duel)
		}},
		{upgrades, runUpgrade},
		{f.Plan.Mixed != nil, atRates(record.InMixed, (*rates).mixed)},
		{f.Plan.Capacity != nil, atRates(record.InCapacity, (*rates).ladder)},
	} {
		if part.planned && !f.decided() {
			if err := part.run(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}
