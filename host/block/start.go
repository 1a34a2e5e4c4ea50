package block

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/machine"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	idleShare = 0.01 // of a CPU: a server that uses less has nothing to do
	steadyFor = 3    // looks in a row at the same share: so much it uses at rest
	// mergeAttempts is how often all are asked to merge, until their data lie alike.
	mergeAttempts = 4
)

// Tests wait less.
var (
	idleLook = time.Second // over which idleShare is seen
	askAgain = scrape.CacheAge
)

// start brings all variants up equally: no answers kept from before, their data in the page cache of all or of none,
// nothing left to do.
func (d *duel) start(ctx context.Context) error {
	s := d.enter("start", "")
	defer func() { s.close(0, 0) }()
	err := d.all(func(v *variant) error {
		side, again := d.record.Start[v.Name]
		if again {
			side.Restarts++
		}
		if err := d.forget(ctx, v); err != nil {
			return err
		}
		sizes, err := d.sizes(ctx, v)
		if err != nil {
			return err
		}
		side.CachesDeleted = d.equalStart(v, sizes["cache_bytes"], "bytes of answers on disk")
		side.DataReadBytes, err = d.readOnce(v)
		d.record.Start[v.Name] = side
		return err
	})
	if err != nil || d.decided() {
		return err
	}
	err = d.all(func(v *variant) error {
		if _, err := d.launch(ctx, v, cmp.Or(d.when, "duel")+"-", d.Host.Pin.Server); err != nil {
			return err
		}
		return d.answersKept(ctx, v)
	})
	if err != nil || d.decided() {
		return err
	}
	if err := d.rest(ctx); err != nil || d.decided() {
		return err
	}
	if d.Host.Instructions {
		return d.all(func(v *variant) (err error) {
			d.counted[v.Name].Close()
			d.counted[v.Name], err = exchange.CountInstructions(listening(v.servers)...)
			if dead := d.died(v); dead != nil {
				return dead
			}
			return err
		})
	}
	return nil
}

// answersKept asks a server that has just started what it came up with: answers may be kept elsewhere than under its directory.
func (d *duel) answersKept(ctx context.Context, v *variant) error {
	counter, has := v.target.Counters["answers_kept"]
	if !has {
		return nil
	}
	body := v.metrics(ctx)
	d.asked = time.Now()
	if len(body) == 0 {
		return faultf("equal_start could not be checked: %s", v.unread())
	}
	kept, _, err := scrape.Sum(body, counter)
	if err == nil {
		d.equalStart(v, int64(kept), "cached answers in its memory")
	}
	return err
}

// equalStart voids the block where a side comes with answers of an earlier process: that makes everything which follows
// wrong, and precisely so (MEASUREMENT.md 0).
func (f *frame) equalStart(v *variant, kept int64, what string) bool {
	c := record.Check{Check: "equal_start", Phase: "start", Actual: float64(kept), OK: kept == 0,
		Message: fmt.Sprintf("unequal starts: %s began with %d %s, which an earlier process left", v.Name, kept, what)}
	if err := f.check(v, c); err != nil && f.block.Void == "" {
		f.block.Void = err.Error()
	}
	return c.OK
}

// rest waits until all are idle, with their data in as many parts on every side: how many a load leaves is chance, and one
// or two was 20 % for queries that read much (docs/method.md). Where they are merged here, all sides are asked again while
// that is not so: a merge that is asked for while another runs, as after a start, is ignored. Copies of one directory lie alike
// as they are, and stay so unless something merges.
func (d *duel) rest(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := d.all(func(v *variant) (err error) {
			side := d.record.Start[v.Name]
			side.IdleS = 0
			d.record.Start[v.Name] = side
			if d.mergesLater(v) && (d.when != "before" || attempt > 1) {
				err = d.askToSettle(ctx, v, "merged")
			}
			return err
		})
		if err != nil || d.decided() {
			return err
		}
		if err := d.awaitIdle(ctx); err != nil || d.decided() {
			return err
		}
		said, err := d.unequalParts()
		canMerge := slices.ContainsFunc(d.alive(), (*variant).merges)
		switch {
		case err != nil || said == "":
			return err
		case slices.ContainsFunc(d.alive(), d.mergesLater) && attempt < mergeAttempts:
			continue
		case !canMerge:
			d.Events.Note(d.block.Block, "", "", said)
		case d.Plan.Settle.Mode == "merged":
			d.block.Void = "unequal starts: " + said + ", though they were merged"
		default:
			d.Events.Note(d.block.Block, "", "", said+": SET=\"settle.mode=merged\" makes them alike")
		}
		return nil
	}
}

// unequalParts says in how many parts the data lie where that is not the same on every side of a database, else nothing.
func (d *duel) unequalParts() (string, error) {
	first := map[string]float64{}
	for _, v := range d.alive() {
		counter, has := v.target.Counters["parts"]
		parts, found, err := scrape.Sum(d.bodies[v.Name], counter)
		if err != nil {
			return "", err
		}
		if !has || !found {
			continue
		}
		if before, seen := first[v.Target]; seen && before != parts {
			return fmt.Sprintf("the data lie in %v parts on one side and in %v on another, by chance", min(before, parts), max(before, parts)), nil
		}
		first[v.Target] = parts
	}
	return "", nil
}

// readOnce reads all data of a variant once, or has them forgotten for a cold cache: how many bytes.
func (f *frame) readOnce(v *variant) (bytes int64, err error) {
	err = f.everywhere(v, func(m machine.Machine) error {
		var read int64
		err := m.ReadOnce(machine.Reading{Dir: v.data, Drop: f.Plan.Queries.Cache == "cold"}, &read)
		bytes += read
		return err
	})
	return bytes, err
}

// awaitIdle waits until no server has anything left to do: no merges, and under 1 % of a CPU over a second. One that keeps
// using the same share does so at rest; it is named, as is one that finds no rest in time.
func (d *duel) awaitIdle(ctx context.Context) error {
	begin := time.Now()
	shares := map[string][]float64{}
	for waiting := true; waiting; {
		used, seconds, err := d.watch(ctx, idleLook)
		if err == nil {
			err = d.readCounters(ctx)
		}
		if err != nil {
			return err
		}
		waiting = false
		err = d.all(func(v *variant) error {
			side := d.record.Start[v.Name]
			if side.IdleS > 0 {
				return nil
			}
			elapsed := time.Since(begin)
			busy, _, err := v.leftToDo(d.bodies[v.Name], v.target.Quiet)
			if err != nil {
				return err
			}
			seen := append(shares[v.Name], float64(used[v.Name])/seconds/1e9)
			last := seen[max(0, len(seen)-steadyFor):]
			shares[v.Name] = seen
			share := last[len(last)-1]
			steady := len(last) == steadyFor && slices.Max(last)-slices.Min(last) < idleShare
			late := elapsed >= record.Seconds(d.Plan.Watchdog.IdleTimeoutS)
			switch {
			case busy == 0 && share < idleShare:
			case busy == 0 && steady:
				d.Events.Note(d.block.Block, v.Name, "", fmt.Sprintf("it uses %.1f %% of a CPU when nobody asks", 100*share))
			case late:
				side.IdleTimeout = true
				d.Events.Note(d.block.Block, v.Name, "", fmt.Sprintf("it was not idle within %.0f s (%.1f %% of a CPU, %.0f merges and the like): its exchanges have that beside them", elapsed.Seconds(), 100*share, busy))
			default:
				waiting = true
				return nil
			}
			side.IdleS = elapsed.Seconds()
			d.record.Start[v.Name] = side
			return nil
		})
		if err != nil || d.decided() {
			return err
		}
	}
	return nil
}

// watch is the CPU time in ns that each variant uses while nobody asks.
func (d *duel) watch(ctx context.Context, length time.Duration) (used map[string]int64, seconds float64, err error) {
	used = map[string]int64{}
	begin := time.Now()
	read := func(sign int64) error {
		return d.all(func(v *variant) error {
			cpu, err := v.cpu()
			if err != nil {
				return d.noAnswer(ctx, v, err.Error())
			}
			used[v.Name] += sign * int64(cpu)
			return nil
		})
	}
	if err := read(-1); err != nil {
		return nil, 0, err
	}
	select {
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	case <-time.After(length):
	}
	seconds = time.Since(begin).Seconds()
	if err := read(1); err != nil {
		return nil, 0, err
	}
	return used, seconds, nil
}

// readCounters asks all for their /metrics, not before they would give the last answer again.
func (d *duel) readCounters(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(d.asked.Add(askAgain))):
	}
	for _, v := range d.alive() {
		d.bodies[v.Name] = v.metrics(ctx)
	}
	d.asked = time.Now()
	return nil
}
