package block

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tsduel/host/checks"
	"tsduel/host/record"
	"tsduel/host/scrape"
	"tsduel/host/servers"
)

// arriveEvery is how often to look whether the last sample has arrived. The counter may be a second old.
const arriveEvery = 100 * time.Millisecond

// drain is when a database was quiet after the last acknowledged sample, with its CPU and writes until then.
type drain struct {
	seconds float64
	cpu     servers.Usage
	written int64
}

// arrive waits until so many samples are stored, if a component acknowledges samples earlier, and returns how often it
// has looked. It gives up if none has arrived for as long as a load may stall: stored then tells the number.
func (v *variant) arrive(ctx context.Context, samples int64, before []byte, every time.Duration) (looks int,
	err error) {
	counter, has := v.Module.Counters["stored"]
	if !has || len(v.queues()) == 0 {
		return 0, nil
	}
	for last, since := -1.0, time.Now(); ; {
		body := v.Metrics(ctx)
		looks++
		now, _, err := moved("samples_stored", counter, before, body)
		switch {
		case err != nil:
			return looks, err
		case len(body) > 0 && now*max(1, v.Module.SamplesPerRow) >= float64(samples):
			return looks, nil
		case len(body) > 0 && now != last:
			last, since = now, time.Now()
		case time.Since(since) >= record.Seconds(v.in.Plan.Watchdog.LoadStallS):
			return looks, nil
		}
		if err := v.Died(); err != nil {
			return looks, err
		}
		if err := record.Sleep(ctx, every); err != nil {
			return looks, err
		}
	}
}

// queues are the roles that acknowledge samples before these are stored.
func (v *variant) queues() (roles []string) {
	for _, c := range v.Components {
		if slices.Contains(v.Module.Queues, c.Role) {
			roles = append(roles, c.Role)
		}
	}
	return roles
}

// mergesLater says that the duel's processes merge and not the load's: only data that a graceful stop has
// written can be merged. With a cold cache the load's process merges, since merges fill the page cache.
func (v *variant) mergesLater() bool {
	return v.in.Plan.Settle.Mode == "merged" && v.merges() && !v.in.Plan.Settle.Drain && v.in.Plan.Duel.Enabled &&
		v.in.Plan.Queries.Cache != "cold"
}

func (v *variant) merges() bool { return len(v.Module.BeforeMerge) > 0 }

// waitQuiet polls until the counters are 0 and the target's still ones unchanged. The first quiet poll
// counts.
func (v *variant) waitQuiet(ctx context.Context, counters []string, polls int,
	loadEnd, deadline time.Time) (at drain, err error) {
	quiet, lastStill := 0, -1.0
	// The first poll ends the snapshot of the load's end, and is not older than that.
	body, err := v.Snapshots.Body(ctx, true)
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
				if at.cpu, err = v.CPU(); err != nil {
					return at, v.Died()
				}
				sum, _ := v.Kernel()
				at.written = sum.StorageWritten
			}
		default:
			quiet = 0
		}
		if lastStill = still; quiet >= polls && len(body) > 0 {
			return at, nil
		}
		if err := v.Died(); err != nil {
			return at, err
		}
		if now.After(deadline) {
			left := fmt.Sprintf("%v still to do", busy)
			if len(body) == 0 {
				left = v.Unread()
			}
			return at, checks.Faultf("the database did not settle within %v s: %s; %s", v.in.Plan.Settle.TimeoutS, left,
				v.QueryServer().LastWords())
		}
		if err := record.Sleep(ctx, record.Seconds(v.in.Plan.Settle.PollS)); err != nil {
			return at, err
		}
		body = v.Metrics(ctx)
	}
}

// leftToDo sums the counters that are 0 once nothing is left to do, and those that then stand still. One that is
// missing is unknown, and no zero: its check fails, or a note tells once of an optional one. Without a body nothing is
// known, and both are 0.
func (v *variant) leftToDo(body []byte, quiet []string) (busy, still float64, err error) {
	sum := func(names []string) (sum float64) {
		for _, name := range names {
			counter := v.Module.Counters[name]
			value, found, failed := scrape.Sum(body, counter)
			of := func(c record.Component) bool { return counter.Role == "" || c.Role == counter.Role }
			switch {
			case failed != nil || found || len(body) == 0 || !slices.ContainsFunc(v.Components, of):
			case !counter.Optional:
				failed = v.Equal("quiet_known", 1, 0, "whether it is quiet could not be checked: %s is not in its /metrics",
					counter.Name)
			case !slices.Contains(v.lacking, counter.Name):
				v.lacking = append(v.lacking, counter.Name)
				v.in.note(v.Name, "", fmt.Sprintf("when it is quiet was decided without %s, which is not in its /metrics",
					counter.Name))
			}
			sum, err = sum+value, cmp.Or(err, failed)
		}
		return sum
	}
	busy, still = sum(quiet), sum(v.Module.Still)
	return busy, still, err
}

// moved is the growth of a counter, from 0 if it is new. missing says why it is not known. A nil text was not read.
func moved(check string, counter record.Counter, before, after []byte) (grown float64, missing string, err error) {
	from, _, err := scrape.Sum(before, counter)
	if err != nil {
		return 0, "", err
	}
	to, found, err := scrape.Sum(after, counter)
	switch {
	case before == nil:
		missing = "its counters could not be read before"
	case after == nil:
		missing = "its counters could not be read"
	case !found:
		missing = counter.Name + " is not in /metrics"
	default:
		return to - from, "", err
	}
	return 0, check + " could not be checked: " + missing, err
}

func grown(target record.Target, before, after []byte) map[string]float64 {
	all, counters := map[string]float64{}, maps.Clone(servers.KernelCounters)
	maps.Copy(counters, target.Counters)
	for name, counter := range counters {
		if growth, missing, err := moved(name, counter, before, after); err == nil && missing == "" {
			all[name] = growth
		}
	}
	return all
}

// stored checks that the database accepted and stored so many samples, and dropped none.
func (v *variant) stored(samples int64, before, after []byte) error {
	planned := float64(samples)
	for _, c := range []struct {
		check, counter, did string
		expected            float64
	}{
		{"samples_inserted", "inserted", "accepted", planned}, {"samples_stored", "stored", "stored", planned},
		{"samples_ignored", "ignored", "ignored", 0}, {"samples_invalid", "invalid", "called invalid", 0},
	} {
		counter, has := v.Module.Counters[c.counter]
		if !has {
			continue
		}
		rows, missing, err := moved(c.check, counter, before, after)
		if err != nil {
			return err
		}
		actual := rows * max(1, v.Module.SamplesPerRow)
		wrong := fmt.Sprintf("the database %s %.0f samples of %.0f (%s)", c.did, actual, planned, counter.Name)
		if queues := v.queues(); len(queues) > 0 && actual < planned {
			wrong += fmt.Sprintf("; %s acknowledged them, and nothing came for %v s", strings.Join(queues, " and "),
				v.in.Plan.Watchdog.LoadStallS)
		}
		if missing != "" {
			actual, wrong = -max(1, v.Module.SamplesPerRow), missing
		}
		if c.counter == "inserted" && v.in.Plan.Workload.OwnData != nil {
			actual = min(actual, planned) // databases accept values of the user's that are no numbers, and keep none
		}
		if err := v.Check(record.Check{Check: c.check, Phase: v.Phase, QueryType: v.QueryType, Expected: c.expected,
			Actual: actual, OK: c.expected == actual, Message: wrong}); err != nil {
			return err
		}
	}
	return nil
}

// rowsRead checks that queries read data, if the target has a counter for that.
func (v *variant) rowsRead(queryType string, before, after []byte) error {
	counter, has := v.Module.Counters["rows_read"]
	if !has || v.in.Plan.Deployed() && before == nil {
		return nil
	}
	rows, missing, err := moved("rows_read", counter, before, after)
	if err != nil {
		return err
	}
	wrong := cmp.Or(missing, fmt.Sprintf("the queries of %s read no data: %s did not move",
		cmp.Or(queryType, "all types"), counter.Name))
	return v.Check(record.Check{Check: "rows_read", Phase: v.Phase, QueryType: queryType, Expected: 1, Actual: rows,
		OK: rows >= 1, Message: wrong})
}
