package block

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tsduel/host/record"
	"tsduel/host/scrape"
)

// arriveEvery is how often it is looked whether the last sample has arrived; what is looked at may be a second old.
const arriveEvery = 100 * time.Millisecond

// drain is how long after the last acknowledged sample the database was quiet, and what its servers had used and written to
// storage since they were started.
type drain struct {
	seconds float64
	cpu     usage
	written int64
}

// settle asks the database to come to rest, and polls until it is: the first of so many quiet polls in a row counts.
func (f *frame) settle(ctx context.Context, v *variant, part string, loadEnd time.Time) (at drain, err error) {
	s := f.begin(v, part, "settle", "")
	s.listen(v.servers...)
	deadline := time.Now().Add(record.Seconds(f.Plan.Settle.TimeoutS))
	natural, polls := v.target.Quiet, f.Plan.Settle.Polls
	if f.mergesLater(v) && part == record.Solo {
		natural, polls = v.target.BeforeMerge, 1
	}
	rest := func(mode string, quiet []string, polls int) (drain, error) {
		if err := f.askToSettle(ctx, v, mode); err != nil {
			return drain{}, err
		}
		return f.waitQuiet(ctx, v, quiet, polls, loadEnd, deadline)
	}
	if at, err = rest("natural", natural, polls); err != nil {
		return at, err
	}
	v.drained()
	if f.Plan.Settle.Mode == "merged" && v.merges() && !f.mergesLater(v) {
		v.snapshots.Mark("settle", "begin", "")
		// Merging because we ask for it is no part of the load's work; one look may come before it has begun.
		if _, err := rest("merged", v.target.Quiet, max(2, f.Plan.Settle.Polls)); err != nil {
			return at, err
		}
	}
	s.over()
	s.close(0, 0)
	return at, nil
}

// askToSettle asks every component.
func (f *frame) askToSettle(ctx context.Context, v *variant, mode string) error {
	for _, s := range v.servers {
		if _, err := f.ask(ctx, v, s, record.Seconds(f.Plan.Settle.TimeoutS), "settle", "SETTLE_MODE="+mode); err != nil {
			return err
		}
	}
	return nil
}

// arrive waits until so many samples are stored, where a component acknowledges them before that: it gives up once no more
// has arrived for as long as a load may stand still. How many did is for stored to say.
func (f *frame) arrive(ctx context.Context, v *variant, samples int64, before []byte) error {
	counter, has := v.target.Counters["stored"]
	if !has || len(v.queues()) == 0 {
		return nil
	}
	for arrived, moved := -1.0, time.Now(); ; {
		body := v.metrics(ctx)
		now, _, err := v.moved("samples_stored", counter, before, body)
		switch {
		case err != nil:
			return err
		case len(body) > 0 && now*max(1, v.target.SamplesPerRow) >= float64(samples):
			return nil
		case len(body) > 0 && now != arrived:
			arrived, moved = now, time.Now()
		case time.Since(moved) >= record.Seconds(f.Plan.Watchdog.LoadStallS):
			return nil
		}
		if err := f.died(v); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(arriveEvery):
		}
	}
}

// queues are the components that acknowledge samples before those are stored.
func (v *variant) queues() (roles []string) {
	for _, c := range v.Components {
		if slices.Contains(v.target.Queues, c.Role) {
			roles = append(roles, c.Role)
		}
	}
	return roles
}

// mergesLater says that the duel's processes merge, right after their start: a part in memory is not merged, and the
// graceful stop has written those that the load left, which would otherwise be waited for. Not where the page cache is to be
// cold: what was just merged is in it.
func (f *frame) mergesLater(v *variant) bool {
	return f.Plan.Settle.Mode == "merged" && v.merges() && !f.Plan.Settle.Drain && f.Plan.Duel.Enabled && f.Plan.Queries.Cache != "cold"
}

// merges says that the database can be asked to: its target says when.
func (v *variant) merges() bool { return len(v.target.BeforeMerge) > 0 }

// waitQuiet polls until the counters in quiet are 0, and those that have to stand still do, so many times in a row.
func (f *frame) waitQuiet(ctx context.Context, v *variant, counters []string, polls int, loadEnd, deadline time.Time) (at drain, err error) {
	quiet, lastStill := 0, -1.0
	// The first look ends the snapshot of the load's end, and is not older than that.
	body, err := v.snapshots.Body(ctx, true)
	for {
		if err != nil {
			return at, err
		}
		now := time.Now()
		busy, still, err := v.leftToDo(body, counters)
		switch {
		case err != nil:
			return at, err
		case len(body) > 0 && busy == 0 && (still == lastStill || quiet == 0):
			if quiet++; quiet == 1 {
				at.seconds = now.Sub(loadEnd).Seconds()
				if at.cpu, err = v.cpuByRole(); err != nil {
					return at, f.died(v)
				}
				at.written = v.storageWritten()
			}
		default:
			quiet = 0
		}
		if lastStill = still; quiet >= polls && len(body) > 0 {
			return at, nil
		}
		if err := f.died(v); err != nil {
			return at, err
		}
		if now.After(deadline) {
			left := fmt.Sprintf("%v still to do", busy)
			if len(body) == 0 {
				left = v.unread()
			}
			return at, faultf("the database did not settle within %v s: %s; %s", f.Plan.Settle.TimeoutS, left, lastWords(v.front()))
		}
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(record.Seconds(f.Plan.Settle.PollS)):
		}
		body = v.metrics(ctx)
	}
}

// metrics are the texts of all components; empty where one does not answer.
func (v *variant) metrics(ctx context.Context) (all []byte) {
	for _, s := range v.servers {
		body, err := s.counters(ctx)
		if err != nil {
			v.silent = s
			return nil
		}
		all = append(append(all, body...), '\n')
	}
	return all
}

// unread is for a sentence where metrics gave nothing.
func (v *variant) unread() string {
	return "its counters cannot be read at " + cmp.Or(cmp.Or(v.silent, v.front()).metrics, v.Target+"/metrics")
}

// leftToDo is how much a database has still to do, and the counters that stand still once it does nothing.
func (v *variant) leftToDo(body []byte, quiet []string) (busy, still float64, err error) {
	for _, names := range []struct {
		of  []string
		sum *float64
	}{{quiet, &busy}, {v.target.Still, &still}} {
		for _, name := range names.of {
			value, _, err := scrape.Sum(body, v.target.Counters[name])
			if err != nil {
				return 0, 0, err
			}
			*names.sum += value
		}
	}
	return busy, still, nil
}
