package block

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

// bottleneck is the share of its CPUs from which on a client, and not a server, is measured.
const bottleneck = 0.8

// duel is the part of a block in which all variants are resident and every operation goes to each in turn.
type duel struct {
	*frame
	record       *record.DuelRecord
	part         string   // of its phases
	when         string   // before or after, in an upgrade
	types        []string // of queries, in this order
	sent         map[string]int
	exchanges    *table
	differences  []record.Difference
	typical      map[[2]string][]float64 // ln ratios by candidate and state, one a query type and sitting
	index        int                     // of the sitting, from 0
	loading      bool                    // the sitting loads in turn
	instructions map[string]*exchange.Instructions
	bodies       map[string][]byte  // of /metrics, as last read
	countersRead time.Time          // when bodies were read
	marks        map[string][]usage // CPU at the edges of the last phase
}

func runDuel(ctx context.Context, f *frame) error {
	return newDuel(f, record.InDuel, "", f.Row.QueryTypes, &f.block.Duel).whole(ctx)
}

func newDuel(f *frame, part, when string, types []string, to **record.DuelRecord) *duel {
	*to = &record.DuelRecord{Start: map[string]record.DuelStart{}, Places: []record.DuelPlace{},
		Idle: []record.DuelIdle{}, Types: []record.DuelType{}, Load: []record.DuelLoad{},
		Counters: map[string]map[string]float64{}, RSSBytes: map[string]int64{}, RSSPeakBytes: map[string]int64{}}
	return &duel{frame: f, record: *to, part: part, when: when, types: types, sent: map[string]int{},
		differences: []record.Difference{}, typical: map[[2]string][]float64{}}
}

// whole runs the duel. A variant that fails leaves it; the others go on while two are alive.
func (d *duel) whole(ctx context.Context) (err error) {
	if err := os.MkdirAll(d.path(""), 0o777); err != nil {
		return err
	}
	columns := "query_type,sitting,k,order,bytes"
	if d.exchanges, err = createTable(d.path("exchanges.csv.gz"), columns, d.Plan.Variants...); err != nil {
		return err
	}
	err = pinned(d.Host.Pin.Client, func() error {
		if d.Plan.Duel.Load {
			return d.steps(func() error { return d.ingest(ctx) }, func() error { return d.run(ctx) })
		}
		return d.run(ctx)
	})
	if err = errors.Join(err, d.exchanges.Close()); err != nil {
		return err
	}
	d.ratios()
	return record.WriteJSON(d.path("differences.json"), d.differences)
}

func (d *duel) path(name string) string { return filepath.Join(d.Dir, d.part, d.when, name) }

func (d *duel) run(ctx context.Context) error {
	d.record.Sittings = d.sittings(d.Plan.Duel.Sittings)
	for index := range d.record.Sittings {
		if err := d.sit(ctx, index); err != nil || d.decided() {
			return err
		}
	}
	if d.when != "" {
		return nil
	}
	// If the duel merged or loaded the data, their size is known only now.
	return d.all(func(v *variant) (err error) {
		solo, has := d.block.Solo[v.Name]
		if has && v.mergesLater() || !has && d.loads() {
			err = (&alone{variant: v, record: &solo}).keepSizes(ctx)
			d.block.Solo[v.Name] = solo
		}
		return err
	})
}

// sittings is how many there are: as planned, or one in a warm-up block and in a profile.
func (d *duel) sittings(planned int) int {
	if d.Row.Kind == "warmup" || d.profiler != nil {
		return 1
	}
	return max(1, planned)
}

// sit is one sitting: it starts all variants, exchanges its share of every type, and stops all.
func (d *duel) sit(ctx context.Context, index int) error {
	d.next(index, false)
	defer d.close()
	steps := []func() error{func() error { return d.start(ctx) }}
	if index == 0 {
		steps = append(steps, func() error { return d.idle(ctx, "before") })
	}
	var before map[string][]byte
	steps = append(steps, func() error { before = maps.Clone(d.bodies); return nil })
	for place, queryType := range d.types {
		if d.Plan.Queries.Cache == "cold" && place > 0 {
			steps = append(steps, func() error { return d.stop(ctx) }, func() error { return d.start(ctx) })
		}
		steps = append(steps, func() error { return d.exchange(ctx, queryType, place) })
	}
	if d.countsTogether() {
		steps = append(steps, func() error { return d.countTogether(ctx, before) })
	}
	if index == d.record.Sittings-1 {
		steps = append(steps, func() error { return d.idle(ctx, "after") }, d.keepRSS)
	}
	return d.steps(append(steps, func() error { return d.stop(ctx) })...)
}

func (d *duel) keepRSS() error {
	for _, v := range d.alive() {
		sum, rss := v.kernel()
		if sum.PeakRSS >= 0 {
			d.record.RSSPeakBytes[v.Name] = sum.PeakRSS
		}
		if now := rss.bytes(); now >= 0 {
			d.record.RSSBytes[v.Name] = now
			d.byRole(&d.record.RSSByRole, v.Name, rss)
		}
	}
	return nil
}

func (d *duel) idle(ctx context.Context, when string) error {
	s := d.timed("idle", when)
	used, seconds, err := d.watch(ctx, record.Seconds(d.Plan.Duel.IdleS))
	s.close(0, 0)
	if err == nil {
		d.record.Idle = append(d.record.Idle, record.DuelIdle{When: when, Seconds: seconds, CPUNS: used})
	}
	return err
}

// exchange is this sitting's share of the exchanges of one query type, which has that place among the types.
func (d *duel) exchange(ctx context.Context, queryType string, place int) (err error) {
	rule, n := d.Plan.Duel, d.record.Sittings
	share := func(whole int) int { return (whole + n - 1) / n }
	job := exchange.Job{InFlight: rule.InFlight, Timeout: record.Seconds(d.Plan.Watchdog.QueryStallS),
		MostDifferences: rule.MostDifferences, Until: exchange.Until{Lasts: record.Seconds(rule.Seconds / float64(n)),
			Longest: record.Seconds(rule.LongestS / float64(n)), Least: share(rule.Least), Fewest: share(rule.Fewest)}}
	first, times := d.sent[queryType], 1
	if d.Calibration != nil && d.Calibration.Counts[queryType] > 0 {
		count := d.Calibration.Counts[queryType]
		first += d.Row.Turn * count
		times = d.repeats(queryType, count)
		job.Until = exchange.Until{Count: share(count) * times}
	}
	open := func(target *record.Target) (source exchange.Source, reading exchange.Reading, err error) {
		return d.open(queryType, target, func(count int) int {
			if d.Calibration == nil { // a phase that lasts its time may reach the end of the file
				first = d.index * count / n
			}
			return first
		})
	}
	// Opened before the phase begins, since it takes time to find this block's slice.
	if job.Sides, err = d.sides(open); err != nil {
		return err
	}
	job.Ask = indices(job.Sides, d.askOrder(place))
	if d.Plan.Queries.Cache == "warm" {
		warmed, err := d.send(ctx, job)
		if err == nil {
			err = d.readCounters(ctx)
		}
		if err != nil {
			return err
		}
		job.Until = exchange.Until{Count: max(1, job.Until.Count, len(warmed.Exchanges))}
		if job.Sides, err = d.sides(open); err != nil {
			return err
		}
	}
	// A quarter longer than the phase, so that one window of a profile is enough.
	expect := record.Seconds(1.25 * rule.Seconds * float64(times))
	endProfile := d.profiler.read(ctx, "queries", expect, d.alive()...)
	defer endProfile(0)
	before := maps.Clone(d.bodies) // no query was sent since they were read
	s := d.timed("exchange", queryType)
	result, err := d.send(ctx, job)
	if err != nil {
		return err
	}
	endProfile(int64(len(result.Exchanges)))
	s.close(min(1, len(result.Stopped)), int64(len(result.Exchanges)))
	prefix := fmt.Sprintf("%s,%d,", queryType, d.index)
	if err := d.exchanges.add(prefix, d.sent[queryType], job.Sides, d.Plan.Variants, result.Exchanges); err != nil {
		return err
	}
	d.sent[queryType] += len(result.Exchanges)
	d.keep(queryType, first, job.Sides, result)
	if !d.countsTogether() {
		if err := d.readCounters(ctx); err != nil {
			return err
		}
	}
	planned := max(1, job.Until.Count, len(result.Exchanges))
	return d.judge(ctx, job.Sides, result, func(v *variant, i int) error {
		if err := d.checkAnswers(v, queryType, planned, i, result); err != nil || d.countsTogether() {
			return err
		}
		d.record.Types[len(d.record.Types)-1].Counters[v.Name] = grown(v.target, before[v.Name], d.bodies[v.Name])
		return v.rowsRead(queryType, before[v.Name], d.bodies[v.Name])
	})
}

// checkAnswers checks that the i-th side answered all planned exchanges, like the first side, with data.
func (d *duel) checkAnswers(v *variant, queryType string, planned, i int, result *exchange.Result) error {
	side, difference := result.Sides[i], ""
	if result.First != nil {
		difference = fmt.Sprintf(", first in exchange %d: %s", result.First.K, result.First.What)
	}
	empty := side.Empty
	if d.Plan.AllMayBeEmpty(queryType) || empty < len(result.Exchanges) && d.Plan.MayBeEmpty(queryType) {
		empty = 0
	}
	for _, c := range []struct {
		check            string
		expected, actual int
		wrong            string
	}{
		{"exchanges_same", 0, side.Differences, fmt.Sprintf("%d of %d answers to %s are not the same as %s's%s "+
			"(%s/differences.json has both)", side.Differences, side.Compared, queryType, d.Plan.Variants[0].Name, difference,
			filepath.Join(d.part, d.when))},
		{"exchanges_answered", planned, side.Compared, fmt.Sprintf("%d of %d exchanges of %s were compared: %s",
			side.Compared, planned, queryType, result.Stopped)},
		{"exchanges_empty", 0, empty, fmt.Sprintf("%d of %d answers to %s have no data", side.Empty,
			len(result.Exchanges), queryType)},
	} {
		if i == 0 && c.check != "exchanges_empty" {
			continue // the first side is compared with none
		}
		if err := v.equal(c.check, int64(c.expected), int64(c.actual), "%s", c.wrong); err != nil {
			return err
		}
	}
	return nil
}

// repeats is how often a profile repeats the exchanges of a type to fill its time, as far as the files reach.
func (d *duel) repeats(queryType string, count int) int {
	if d.profiler == nil {
		return 1
	}
	all := profileFor.Seconds() * float64(len(d.Plan.Variants))
	times := int(math.Ceil(all / d.Plan.Duel.Seconds / float64(len(d.Row.QueryTypes))))
	for _, file := range d.Workload.Queries {
		if file.Type == queryType {
			times = min(times, file.Count/count)
		}
	}
	return max(1, times)
}

// countsTogether says to read counters once for all types: some databases repeat an answer for a second.
func (d *duel) countsTogether() bool { return d.Plan.Duel.Counters == "duel" }

// countTogether keeps the growth of the counters over all query types.
func (d *duel) countTogether(ctx context.Context, before map[string][]byte) error {
	if err := d.readCounters(ctx); err != nil {
		return err
	}
	return d.all(func(v *variant) error {
		sum := grown(v.target, before[v.Name], d.bodies[v.Name])
		for name, earlier := range d.record.Counters[v.Name] {
			sum[name] += earlier
		}
		d.record.Counters[v.Name] = sum
		return v.rowsRead("", before[v.Name], d.bodies[v.Name])
	})
}

// open opens the queries of a type as a target is asked them. first is the first one, from the number of all. reading
// says how far the answers are compared with the baseline's.
func (f *frame) open(queryType string, target *record.Target, first func(count int) int) (source exchange.Source,
	reading exchange.Reading, err error) {
	file, err := f.Workload.QueriesFor(*target, queryType)
	if err != nil {
		return nil, reading, err
	}
	reading = exchange.Reading{Answers: target.Answers, Prefix: target.NamePrefix}
	if target.Volatile != "" {
		if reading.Volatile, err = regexp.Compile(target.Volatile); err != nil {
			return nil, reading, fmt.Errorf("the target's volatile: %w", err)
		}
	}
	for _, t := range f.Plan.Queries.Types {
		if t.Name == queryType {
			reading.Level = exchange.Level(t.Compared[target.Name].Level)
			if target.Windows == "start" {
				reading.Shift = t.WindowS
			}
		}
	}
	source, err = exchange.OpenQueries(file.Path, first(file.Count), target.QueryArguments, false)
	return source, reading, err
}

func (d *duel) send(ctx context.Context, job exchange.Job) (*exchange.Result, error) {
	defer closeAll(job.Sides)
	clear(d.marks)
	job.Read = indices(job.Sides, d.readOrder())
	job.Progress = func(done int, elapsed time.Duration) {
		total := job.Until.Count
		if total == 0 {
			total = int(float64(done) * math.Max(1, job.Until.Lasts.Seconds()/elapsed.Seconds()))
		}
		d.Events.Progress(d.phase("exchange"), int64(done), int64(total))
	}
	return exchange.Run(ctx, job)
}

// judge makes the checks of a phase for each variant that took part; i is its side.
func (d *duel) judge(ctx context.Context, sides []exchange.Side, result *exchange.Result,
	checks func(v *variant, i int) error) error {
	return d.all(func(v *variant) error {
		i := indices(sides, []string{v.Name})[0]
		if failure := result.Sides[i].Failure; failure != "" {
			return d.noAnswer(ctx, v, failure)
		}
		return checks(v, i)
	})
}
