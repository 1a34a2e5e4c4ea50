package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"tsduel/host/exchange"
	"tsduel/host/machine"
	"tsduel/host/record"
)

// ingest is exchanged ingestion: the data in batches to all in turn, on directories that are empty before and gone after.
func (d *duel) ingest(ctx context.Context) (err error) {
	loaded := map[*variant]string{}
	defer func() {
		for v, dir := range loaded {
			err = errors.Join(err, d.everywhere(v, func(m machine.Machine) error {
				return m.Prepare(machine.Directories{Remove: []string{v.data}}, &machine.None{})
			}))
			v.data = dir
		}
		d.record.Start = map[string]record.DuelStart{}
	}()
	for _, v := range d.alive() {
		loaded[v], v.data = v.data, v.data+".exchanged"
		// One that was killed may have left its own.
		fresh := machine.Directories{Remove: []string{v.data}}
		for _, c := range v.Components {
			fresh.Make = append(fresh.Make, filepath.Join(v.data, c.Role))
		}
		if err := d.everywhere(v, func(m machine.Machine) error { return m.Prepare(fresh, &machine.None{}) }); err != nil {
			return err
		}
	}
	if err := d.start(ctx); err != nil || d.decided() {
		return err
	}
	rule := d.Plan.Duel
	job := exchange.Job{Timeout: record.Seconds(d.Plan.Watchdog.LoadStallS)}
	if rule.LoadS > 0 {
		job.Until = exchange.Until{Lasts: record.Seconds(rule.LoadS), Longest: record.Seconds(rule.LongestS), Least: rule.Least, Fewest: rule.Fewest}
	}
	job.Sides, err = d.sides(func(target *record.Target) (source exchange.Source, none exchange.Reading, err error) {
		data, ok := d.Workload.DataFor(target.DataFormat)
		if !ok || target.WritePath == "" {
			return nil, none, record.UserError("duel.load: %s has no lines that could be sent to it in turn: SET=\"duel.load=false\"", target.Name)
		}
		source, err = exchange.OpenBatches(cmp.Or(data.FeedPath, data.Path), target.WritePath, d.Plan.Workload.BatchSize)
		return source, none, err
	})
	if err != nil {
		return err
	}
	read := d.profile(ctx, "ingestion", max(firstWindow, record.Seconds(1.25*rule.LoadS)), d.alive()...)
	defer read(0)
	before, s := maps.Clone(d.bodies), d.timed("exchange", "load")
	result, names, places, err := d.send(ctx, job)
	if err != nil {
		return err
	}
	lines := int64(0)
	for _, x := range result.Exchanges {
		lines += int64(x.Lines)
	}
	if lines == d.Plan.Workload.Lines { // all there are: it ended well, if before its time
		result.Stopped = ""
	}
	samples := lines * d.Plan.Workload.Samples / max(1, d.Plan.Workload.Lines)
	if err := d.arrived(ctx, samples, before); err != nil || d.decided() {
		return err
	}
	read(samples)
	s.done(result)
	file, err := createExchanges(d.path("load.csv.gz"), "k,order,lines", d.Plan.Variants)
	if err != nil {
		return err
	}
	if err := errors.Join(file.add("", places, len(d.Plan.Variants), result.Exchanges), file.close()); err != nil {
		return err
	}
	kept := &record.DuelLoad{Exchanges: len(result.Exchanges), Lines: lines, Samples: samples, Seconds: result.Elapsed.Seconds(), CPUNS: map[string]int64{}}
	for i, name := range names {
		kept.CPUNS[name] = cmp.Or(d.used(name).sum(), result.Sides[i].CPU)
		d.byRole(&kept.CPUNSByRole, name, d.used(name))
	}
	d.record.Load = kept
	planned := d.Plan.Workload.Lines
	if err := d.readCounters(ctx); err != nil {
		return err
	}
	err = d.judge(ctx, names, result, func(v *variant, _ int) error {
		asked := planned
		if rule.LoadS > 0 && result.Stopped == "" {
			asked = kept.Lines
		}
		wrong := fmt.Sprintf("%d of %d lines were exchanged: %s", kept.Lines, asked, result.Stopped)
		if err := d.equal(v, "lines_exchanged", float64(asked), float64(kept.Lines), wrong); err != nil {
			return err
		}
		return d.stored(v, kept.Samples, before[v.Name], d.bodies[v.Name])
	})
	if err != nil || d.decided() {
		return err
	}
	return d.stop(ctx)
}

// arrived waits until what was exchanged is stored on all sides, where one acknowledges it before, and has the CPU clocks of
// all run until then.
func (d *duel) arrived(ctx context.Context, samples int64, before map[string][]byte) error {
	if !slices.ContainsFunc(d.alive(), func(v *variant) bool { return len(v.queues()) > 0 }) {
		return nil
	}
	err := d.all(func(v *variant) error { return d.arrive(ctx, v, samples, before[v.Name]) })
	if err != nil {
		return err
	}
	return d.all(func(v *variant) error {
		cpu, err := v.cpuByRole()
		if err != nil {
			return d.noAnswer(ctx, v, err.Error())
		}
		d.marks[v.Name] = append(d.marks[v.Name], cpu)
		return nil
	})
}
