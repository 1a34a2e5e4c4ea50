package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

// putOff is how long a server is watched after the last batch: databases put work off by two seconds.
var putOff = 2500 * time.Millisecond

// ingest loads in turn, each sitting into empty directories. They are removed unless the queries need them.
func (d *duel) ingest(ctx context.Context) (err error) {
	loaded := map[*variant]string{}
	for _, v := range d.alive() {
		if loaded[v] = v.data; !d.loads() {
			v.data = d.dataDir("exchanged", v.Name)
		}
	}
	file, err := createTable(d.path("load.csv.gz"), "sitting,k,order,lines", d.Plan.Variants...)
	if err != nil {
		return err
	}
	for index := range d.sittings(d.Plan.Duel.LoadSittings) {
		if err = d.ingestOnce(ctx, file, index); err != nil || d.decided() {
			break
		}
	}
	err = errors.Join(err, file.Close())
	for v, dir := range loaded {
		if v.data != dir {
			err = errors.Join(err, v.empty(false))
			v.data = dir
		}
	}
	d.record.Start = map[string]record.DuelStart{}
	return err
}

// ingestOnce is one sitting. CPU counts until all acknowledged samples are on the disk.
func (d *duel) ingestOnce(ctx context.Context, file *table, index int) error {
	d.next(index, true)
	defer d.close()
	rule, planned := d.Plan.Duel, d.Plan.Workload.Lines
	kept := record.DuelLoad{Sitting: d.index, CPUNS: map[string]int64{}, DrainedCPUNS: map[string]int64{},
		RSSPeakBytes: map[string]int64{}}
	endProfile := func(int64) {}
	defer func() { endProfile(0) }()
	var ended time.Time
	var before map[string][]byte
	began, running := map[string]usage{}, map[string]servers{}
	return d.steps(
		func() error { return d.all(func(v *variant) error { return v.empty(true) }) },
		func() error { return d.start(ctx) },
		func() error {
			job, err := d.ingestJob()
			if err != nil {
				return err
			}
			expect := max(firstWindow, record.Seconds(1.25*rule.LoadS))
			endProfile = d.profiler.read(ctx, "ingestion", expect, d.alive()...)
			before = maps.Clone(d.bodies)
			s := d.timed("exchange", "load")
			result, err := d.send(ctx, job)
			if err != nil {
				return err
			}
			ended = time.Now()
			kept.Exchanges, kept.Seconds = len(result.Exchanges), result.Elapsed.Seconds()
			for _, x := range result.Exchanges {
				kept.Lines += int64(x.Lines)
			}
			if kept.Lines == planned { // the end of the data is no early end
				result.Stopped = ""
			}
			first := d.alive()[0]
			data, _ := d.Workload.DataFor(first.target.DataFormat)
			if kept.Samples, err = first.samplesOf(cmp.Or(data.FeedPath, data.Path), kept.Lines); err != nil {
				return err
			}
			for i, side := range result.Sides {
				kept.CPUNS[job.Sides[i].Name] = side.CPU
			}
			s.close(min(1, len(result.Stopped)), int64(len(result.Exchanges)))
			err = file.add(fmt.Sprintf("%d,", d.index), 0, job.Sides, d.Plan.Variants, result.Exchanges)
			if err != nil {
				return err
			}
			return d.judge(ctx, job.Sides, result, func(v *variant, _ int) error {
				expected := planned
				if rule.LoadS > 0 && result.Stopped == "" {
					expected = kept.Lines
				}
				return v.equal("lines_exchanged", expected, kept.Lines, "%d of %d lines were exchanged: %s", kept.Lines,
					expected, result.Stopped)
			})
		},
		func() error { return d.drain(ctx, ended, kept.Samples, before) },
		func() error {
			kept.DrainS = time.Since(ended).Seconds()
			endProfile(kept.Samples)
			return d.all(func(v *variant) error {
				return v.stored(kept.Samples, before[v.Name], d.bodies[v.Name])
			})
		},
		func() error {
			for _, v := range d.alive() {
				began[v.Name], running[v.Name] = d.marks[v.Name][0], v.servers
				if sum, _ := v.kernel(); sum.PeakRSS >= 0 {
					kept.RSSPeakBytes[v.Name] = sum.PeakRSS
				}
			}
			return d.stop(ctx)
		},
		func() error {
			for _, v := range d.alive() {
				used := running[v.Name].spent().since(began[v.Name])
				kept.DrainedCPUNS[v.Name] = used.sum()
				d.byRole(&kept.CPUNSByRole, v.Name, used)
			}
			d.record.Load = append(d.record.Load, kept)
			return nil
		},
	)
}

// ingestJob sends the data in batches, or as many as fit into this sitting's time.
func (d *duel) ingestJob() (job exchange.Job, err error) {
	rule := d.Plan.Duel
	job.Timeout = record.Seconds(d.Plan.Watchdog.LoadStallS)
	if rule.LoadS > 0 {
		n := d.sittings(rule.LoadSittings)
		job.Until = exchange.Until{Lasts: record.Seconds(rule.LoadS / float64(n)),
			Longest: record.Seconds(rule.LongestS), Least: (rule.Least + n - 1) / n, Fewest: rule.Fewest}
	}
	job.Sides, err = d.sides(func(target *record.Target) (source exchange.Source, none exchange.Reading, err error) {
		data, ok := d.Workload.DataFor(target.DataFormat)
		if !ok || target.WritePath == "" {
			return nil, none, record.UserError("duel.load: %s has no lines that could be sent to it in turn: "+
				"SET=\"duel.load=false\"", target.Name)
		}
		path := cmp.Or(data.FeedPath, data.Path)
		source, err = exchange.OpenBatches(path, target.WritePath, d.Plan.Workload.BatchSize)
		return source, none, err
	})
	job.Ask = indices(job.Sides, d.askOrder(0))
	return job, err
}

// drain waits until all samples are flushed and the servers idle; with settle.drain also until merges end.
func (d *duel) drain(ctx context.Context, ended time.Time, samples int64, before map[string][]byte) error {
	s := d.enter("settle", "")
	defer s.close(0, 0)
	err := d.all(func(v *variant) error {
		if err := v.arrive(ctx, samples, before[v.Name]); err != nil {
			return err
		}
		return v.askToSettle(ctx, "natural")
	})
	if err != nil || d.decided() {
		return err
	}
	if err := record.Sleep(ctx, time.Until(ended.Add(putOff-idleLook))); err != nil {
		return err
	}
	return d.untilRest(ctx, ended, d.Plan.Settle.TimeoutS, d.Plan.Settle.Drain, func(v *variant, r rest) {
		if !r.rests {
			d.note(v.Name, "", fmt.Sprintf("it still had something to do %.0f s after the last batch (%.1f %% of a CPU, "+
				"%.0f merges and the like)", r.seconds, 100*r.share, r.left))
		}
	})
}
