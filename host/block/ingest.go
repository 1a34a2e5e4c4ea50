package block

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/profiles"
	"tsduel/host/record"
	"tsduel/host/scrape"
	"tsduel/host/servers"
)

// putOff is how long a server is watched after the last batch: databases put work off by two seconds.
var putOff = 2500 * time.Millisecond

// loadTurn is how long a side gets batches in its turn. A Go program that has been idle looks after its threads fifty
// times within its next milliseconds, and one that is never idle looked faster by that: so the first batch of a turn
// is in no time (docs/decisions/20261128-bursts.md).
const loadTurn = 80 * time.Millisecond

// ingestion is a sitting that loads in turn.
type ingestion struct {
	*sitting
	kept   record.DuelLoad
	before map[string][]byte // the counters at its begin
	read   int               // readings of the counters at its begin
	looks  map[string]int    // how often it was seen whether all samples had arrived
	ended  time.Time         // of the last batch
}

// ingest loads in turn, from empty directories on. CPU counts until all acknowledged samples are on the disk.
func (s *sitting) ingest(ctx context.Context, file *table) error {
	s.loading = true
	i := &ingestion{sitting: s, kept: record.DuelLoad{Sitting: s.index, CPUNS: map[string]int64{},
		DrainedCPUNS: map[string]int64{}, RSSPeakBytes: map[string]int64{}, Counters: map[string]map[string]float64{}}}
	endProfile := func(int64) {}
	defer func() { endProfile(0) }()
	return i.in.steps(
		func() error { return i.all(func(v *variant) error { return v.Empty(true) }) },
		func() error { return i.start(ctx) },
		func() error {
			if !i.in.Plan.Deployed() {
				return nil
			}
			return i.all(func(v *variant) error { return v.MustBeEmpty(i.bodies[v.Name]) })
		},
		func() error {
			job, err := i.job()
			if err != nil {
				return err
			}
			expect := max(profiles.FirstWindow, record.Seconds(1.25*i.in.Plan.Duel.LoadS))
			endProfile = i.in.profiler.Read(ctx, "ingestion", expect, endpoints(i.in.alive()...)...)
			return i.exchange(ctx, file, job)
		},
		func() error { return i.drain(ctx) },
		func() error {
			i.kept.DrainS = time.Since(i.ended).Seconds()
			endProfile(i.kept.Samples)
			return i.all(func(v *variant) error {
				i.kept.Counters[v.Name] = i.work(v)
				return v.stored(i.kept.Samples, i.before[v.Name], i.bodies[v.Name])
			})
		},
		func() error { return i.finish(ctx) },
	)
}

// work is what the counters of a variant grew by, without what reading them cost: also to see whether all has arrived.
func (i *ingestion) work(v *variant) map[string]float64 {
	return workOf(v, i.sitting, i.before[v.Name], i.readings-i.read+i.looks[v.Name])
}

// job sends the data in batches, or as many as fit into this sitting's time.
func (i *ingestion) job() (job exchange.Job, err error) {
	rule := i.in.Plan.Duel
	job.Timeout, job.TurnLasts = record.Seconds(i.in.Plan.Watchdog.LoadStallS), loadTurn
	if rule.LoadS > 0 {
		n := i.sittings(rule.LoadSittings)
		job.Until = exchange.Until{Lasts: record.Seconds(rule.LoadS / float64(n)),
			Longest: record.Seconds(rule.MaxSeconds), Least: (rule.MinExchanges + n - 1) / n, Fewest: rule.FloorExchanges}
	}
	job.Sides, err = i.sides(func(target *record.Target) (source exchange.Source, none exchange.Reading, err error) {
		data, ok := i.in.Workload.DataFor(target.DataFormat)
		if !ok || target.WritePath == "" {
			return nil, none, record.UserError("duel.batches: %s has no lines that could be sent to it in turn: "+
				"SET=\"duel.batches=false\"", target.Name)
		}
		path := cmp.Or(data.FeedPath, data.Path)
		source, err = exchange.OpenBatches(path, target.WritePath, i.in.Plan.Workload.BatchSize)
		return source, none, err
	})
	job.Ask = indices(job.Sides, i.askOrder(0))
	return job, err
}

// exchange sends the batches, and checks that all lines were sent.
func (i *ingestion) exchange(ctx context.Context, file *table, job exchange.Job) error {
	i.before, i.read = maps.Clone(i.bodies), i.readings
	phase := i.timed("exchange", "load")
	result, err := i.send(ctx, job)
	if err != nil {
		return err
	}
	i.ended = result.Ended
	i.kept.Exchanges, i.kept.Seconds = len(result.Exchanges), result.Elapsed.Seconds()
	i.kept.Turns, i.kept.TurnS = result.Turns, result.TurnTime.Seconds()
	for _, x := range result.Exchanges {
		i.kept.Lines += int64(x.Lines)
	}
	planned := i.in.Plan.Workload.Lines
	if i.kept.Lines == planned { // the end of the data is no early end
		result.Stopped = ""
	}
	target := i.in.alive()[0].Module
	data, _ := i.in.Workload.DataFor(target.DataFormat)
	if i.kept.Samples, err = i.in.samplesOf(target, cmp.Or(data.FeedPath, data.Path), i.kept.Lines); err != nil {
		return err
	}
	for at, side := range result.Sides {
		i.kept.CPUNS[job.Sides[at].Name] = side.CPU
	}
	phase.close(min(1, len(result.Stopped)), int64(len(result.Exchanges)))
	err = file.add(fmt.Sprintf("%d,", i.index), 0, job.Sides, i.in.Plan.Variants, result.Exchanges)
	if err != nil {
		return err
	}
	// Where a side was out, it is blamed for that, and not the others.
	out := slices.ContainsFunc(result.Sides, func(side exchange.Tally) bool { return side.Failure != "" })
	if out || i.in.Plan.Duel.LoadS > 0 && result.Stopped == "" {
		planned = i.kept.Lines
	}
	return i.judge(ctx, job.Sides, result, func(v *variant, _ int) error {
		return v.Equal("lines_exchanged", planned, i.kept.Lines, "%d of %d lines were exchanged: %s", i.kept.Lines, planned,
			result.Stopped)
	})
}

// drain waits until all samples are flushed and the servers idle; with settle.drain also until merges end.
func (i *ingestion) drain(ctx context.Context) error {
	phase := i.enter("settle", "")
	defer phase.close(0, 0)
	i.looks = map[string]int{}
	err := i.all(func(v *variant) (err error) {
		// Not sooner: an answer that the server repeats costs less, so it could not be taken off.
		if i.looks[v.Name], err = v.arrive(ctx, i.kept.Samples, i.before[v.Name], scrape.CacheAge); i.looks[v.Name] > 0 {
			i.countersRead = time.Now()
		}
		if err != nil || i.in.Plan.Deployed() {
			return err
		}
		return v.AskToSettle(ctx, "natural")
	})
	if err != nil || i.in.decided() {
		return err
	}
	if err := record.Sleep(ctx, time.Until(i.ended.Add(putOff-idleSample))); err != nil {
		return err
	}
	return i.untilIdle(ctx, i.ended, i.in.Plan.Settle.TimeoutS, i.in.Plan.Settle.Drain, func(v *variant, now idleState) {
		if !now.idle {
			i.in.note(v.Name, "", fmt.Sprintf("it still had something to do %.0f s after the last batch (%.1f %% of a CPU, "+
				"%.0f merges and the like)", now.seconds, 100*now.share, now.left))
		}
	})
}

// finish stops the servers, and keeps what they have used in all.
func (i *ingestion) finish(ctx context.Context) error {
	began, running := map[string]servers.Usage{}, map[string]servers.Running{}
	for _, v := range i.in.alive() {
		began[v.Name], running[v.Name] = i.marks[v.Name][0], v.Running
		if sum, _ := v.Kernel(); sum.PeakRSS >= 0 {
			i.kept.RSSPeakBytes[v.Name] = sum.PeakRSS
		}
	}
	if err := i.stop(ctx); err != nil || i.in.decided() {
		return err
	}
	for _, v := range i.in.alive() {
		if i.in.Plan.Deployed() { // what it does after the load is not known from others' work
			continue
		}
		used := running[v.Name].Spent().Since(began[v.Name])
		i.kept.DrainedCPUNS[v.Name] = used.Sum()
		i.in.byRole(&i.kept.CPUNSByRole, v.Name, used)
	}
	i.record.Load = append(i.record.Load, i.kept)
	return nil
}
