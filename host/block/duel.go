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
	"slices"
	"strings"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// bottleneck is the share of its CPUs from which on a client is what is measured.
const bottleneck = 0.8

// duel is the part of a block in which all variants are resident and are asked the same in turn.
type duel struct {
	*frame
	when        string   // before or after, of an upgrade; else empty
	types       []string // of queries, in this order
	record      *record.DuelRecord
	exchanges   *exchangeFile
	differences []record.Difference
	typical     map[[2]string][]float64 // by candidate and state, one a query type
	counted     map[string]*exchange.Instructions
	bodies      map[string][]byte  // of /metrics, when they were last asked for
	marks       map[string][]usage // CPU at the edges of the last phase
	asked       time.Time
}

// runDuel runs it for the variants that are left. A fault of one variant is its own; the others go on while two are left.
func runDuel(ctx context.Context, f *frame) error {
	return newDuel(f, "", f.Row.QueryTypes, &f.block.Duel).whole(ctx)
}

// newDuel begins the record of a duel, which is put where it belongs.
func newDuel(f *frame, when string, types []string, to **record.DuelRecord) *duel {
	d := &duel{frame: f, when: when, types: types, differences: []record.Difference{}, typical: map[[2]string][]float64{},
		counted: map[string]*exchange.Instructions{}, bodies: map[string][]byte{}, marks: map[string][]usage{}}
	d.record = &record.DuelRecord{Start: map[string]record.DuelStart{}, Idle: []record.DuelIdle{}, Types: []record.DuelType{},
		Counters: map[string]map[string]float64{}, RSSBytes: map[string]int64{}, RSSPeakBytes: map[string]int64{}}
	*to = d.record
	return d
}

func (d *duel) whole(ctx context.Context) (err error) {
	if err := os.MkdirAll(d.path(""), 0o777); err != nil {
		return err
	}
	if client := d.Host.Pin.Client; len(client) > 0 {
		undo, err := proc.Pin(client)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	if d.exchanges, err = createExchanges(d.path("exchanges.csv.gz"), "query_type,k,order,bytes", d.Plan.Variants); err != nil {
		return err
	}
	if d.Plan.Duel.Load {
		err = d.ingest(ctx)
	}
	if err == nil && !d.decided() {
		err = d.run(ctx)
	}
	for _, count := range d.counted {
		count.Close()
	}
	if err = errors.Join(err, d.exchanges.close()); err != nil {
		return err
	}
	d.ratios()
	return record.WriteJSON(d.path("differences.json"), d.differences)
}

func (d *duel) path(name string) string { return filepath.Join(d.Dir, d.part(), d.when, name) }

// part is what its phases belong to.
func (d *duel) part() string {
	if d.when == "" {
		return record.InDuel
	}
	return record.InUpgrade
}

// phase is the name of one of its phases: an upgrade has two duels.
func (d *duel) phase(name string) string {
	switch {
	case d.when == "":
		return name
	case name == "exchange":
		return d.when
	}
	return d.when + "-" + name
}

func (d *duel) run(ctx context.Context) error {
	if err := d.start(ctx); err != nil || d.decided() {
		return err
	}
	if err := d.idle(ctx, "before"); err != nil || d.decided() {
		return err
	}
	before := maps.Clone(d.bodies)
	for i, queryType := range d.types {
		if d.Plan.Queries.Cache == "cold" && i > 0 {
			if err := d.stop(ctx); err != nil || d.decided() {
				return err
			}
			if err := d.start(ctx); err != nil || d.decided() {
				return err
			}
		}
		if err := d.exchange(ctx, queryType); err != nil || d.decided() {
			return err
		}
	}
	if d.countsTogether() {
		if err := d.countTogether(ctx, before); err != nil || d.decided() {
			return err
		}
	}
	if err := d.idle(ctx, "after"); err != nil || d.decided() {
		return err
	}
	for _, v := range d.alive() {
		rss := usage{}
		for _, s := range v.servers {
			if c, err := s.kernel(); err == nil { // else it has died, as stop will say
				rss[s.role] = int64(c.RSS)
				d.record.RSSPeakBytes[v.Name] += int64(c.PeakRSS)
			}
		}
		d.record.RSSBytes[v.Name] = rss.sum()
		d.byRole(&d.record.RSSByRole, v.Name, rss)
	}
	if err := d.stop(ctx); err != nil || d.when != "" {
		return err
	}
	// What lies on disk is what was merged; before, it was as many parts as chance had it.
	return d.all(func(v *variant) (err error) {
		if solo, has := d.block.Solo[v.Name]; has && d.mergesLater(v) {
			err = d.keepSizes(ctx, v, &solo)
			d.block.Solo[v.Name] = solo
		}
		return err
	})
}

// decided says that there is nothing to compare any more.
func (d *duel) decided() bool { return d.block.Void != "" || len(d.alive()) < 2 }

// enter begins a phase of all variants, to which their faults are put down.
func (d *duel) enter(phase, queryType string) *span {
	s := d.begin(nil, d.part(), d.phase(phase), queryType)
	for _, v := range d.alive() {
		v.part, v.phase = s.Part, s.Phase
	}
	return s
}

// timed is a phase over which the host is looked at, too.
func (d *duel) timed(phase, queryType string) *span {
	s := d.enter(phase, queryType)
	s.listen(d.servers()...)
	return s
}

func (d *duel) servers() (all []*server) {
	for _, v := range d.alive() {
		all = append(all, v.servers...)
	}
	return all
}

// idle is a phase in which nobody asks.
func (d *duel) idle(ctx context.Context, when string) error {
	s := d.timed("idle", when)
	used, seconds, err := d.watch(ctx, record.Seconds(d.Plan.Duel.IdleS))
	s.over()
	s.close(0, 0)
	if err == nil {
		d.record.Idle = append(d.record.Idle, record.DuelIdle{When: when, Seconds: seconds, CPUNS: used})
	}
	return err
}

// stop stops all gracefully, and looks whether they are who was started.
func (d *duel) stop(ctx context.Context) error {
	s := d.enter("stop", "")
	defer func() { s.close(0, 0) }()
	return d.all(func(v *variant) error {
		if err := d.died(v); err != nil {
			return err
		}
		if err := d.sameProcess(v); err != nil {
			return err
		}
		_, err := d.shutdown(ctx, v)
		return err
	})
}

// exchange is the phase of one query type.
func (d *duel) exchange(ctx context.Context, queryType string) (err error) {
	rule := d.Plan.Duel
	job := exchange.Job{InFlight: rule.InFlight, Timeout: record.Seconds(d.Plan.Watchdog.QueryStallS), MostDifferences: rule.MostDifferences,
		Until: exchange.Until{Lasts: record.Seconds(rule.Seconds), Longest: record.Seconds(rule.LongestS), Least: rule.Least, Fewest: rule.Fewest}}
	first, times := 0, 1
	if d.Calibration != nil && d.Calibration.Counts[queryType] > 0 {
		job.Until = exchange.Until{Count: d.Calibration.Counts[queryType]}
		first = d.Row.Turn * job.Until.Count
		times = d.more(queryType, job.Until.Count)
		job.Until.Count *= times
	}
	open := func(target *record.Target) (source exchange.Source, reading exchange.Reading, err error) {
		file, err := d.Workload.QueriesFor(*target, queryType)
		if err != nil {
			return nil, reading, err
		}
		if reading, err = d.reading(queryType, target); err != nil {
			return nil, reading, err
		}
		source, err = exchange.OpenQueries(file.Path, first, target.QueryArguments)
		return source, reading, err
	}
	// Opened before the phase begins: finding this block's slice takes its time.
	if job.Sides, err = d.sides(open); err != nil {
		return err
	}
	if d.Plan.Queries.Cache == "warm" {
		warmed, _, _, err := d.send(ctx, job)
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
	// A quarter more than it takes, so that one window is enough.
	read := d.profile(ctx, "queries", record.Seconds(1.25*rule.Seconds*float64(times)), d.alive()...)
	defer read(0)
	before, s := maps.Clone(d.bodies), d.timed("exchange", queryType) // nothing was asked of them since
	result, names, places, err := d.send(ctx, job)
	if err != nil {
		return err
	}
	read(int64(len(result.Exchanges)))
	s.done(result)
	if err := d.exchanges.add(queryType+",", places, len(d.Plan.Variants), result.Exchanges); err != nil {
		return err
	}
	d.keep(queryType, first, names, result)
	asked := max(1, job.Until.Count, len(result.Exchanges))
	if !d.countsTogether() {
		if err := d.readCounters(ctx); err != nil {
			return err
		}
	}
	return d.judge(ctx, names, result, func(v *variant, i int) error {
		side := result.Sides[i]
		check := func(name string, expected, actual int, wrong string) error {
			return d.equal(v, name, float64(expected), float64(actual), wrong)
		}
		if i > 0 {
			what := ""
			if result.First != nil {
				what = fmt.Sprintf(", first in exchange %d: %s", result.First.K, result.First.What)
			}
			if err := check("exchanges_same", 0, side.Differences, fmt.Sprintf("%d of %d answers to %s are not the same as %s's%s (%s/differences.json has both)",
				side.Differences, side.Compared, queryType, names[0], what, filepath.Join(d.part(), d.when))); err != nil {
				return err
			}
			if err := check("exchanges_answered", asked, side.Compared, fmt.Sprintf("%d of %d exchanges of %s were compared: %s", side.Compared, asked, queryType, result.Stopped)); err != nil {
				return err
			}
		}
		empty := side.Empty
		if empty < len(result.Exchanges) && d.Plan.MayBeEmpty(queryType) {
			empty = 0
		}
		if err := check("exchanges_empty", 0, empty, fmt.Sprintf("%d of %d answers to %s have no data", side.Empty, len(result.Exchanges), queryType)); err != nil {
			return err
		}
		if d.countsTogether() {
			return nil
		}
		d.record.Types[len(d.record.Types)-1].Counters[v.Name] = v.grown(before[v.Name], d.bodies[v.Name])
		return d.rowsRead(v, queryType, before[v.Name], d.bodies[v.Name])
	})
}

// countsTogether says that counters are read once for all query types: a database that gives its last answer again for a
// second makes every reading wait for that.
func (d *duel) countsTogether() bool { return d.Plan.Duel.Counters == "duel" }

// countTogether keeps how far the counters have moved over all query types.
func (d *duel) countTogether(ctx context.Context, before map[string][]byte) error {
	if err := d.readCounters(ctx); err != nil {
		return err
	}
	return d.all(func(v *variant) error {
		d.record.Counters[v.Name] = v.grown(before[v.Name], d.bodies[v.Name])
		return d.rowsRead(v, "", before[v.Name], d.bodies[v.Name])
	})
}

// reading says how a target's answers are read, and how far they are compared with the baseline's.
func (f *frame) reading(queryType string, target *record.Target) (r exchange.Reading, err error) {
	r = exchange.Reading{Answers: target.Answers, Prefix: target.NamePrefix}
	if target.Volatile != "" {
		if r.Volatile, err = regexp.Compile(target.Volatile); err != nil {
			return r, fmt.Errorf("the target's volatile: %w", err)
		}
	}
	for _, t := range f.Plan.Queries.Types {
		if t.Name != queryType {
			continue
		}
		r.Level = exchange.Level(t.Compared[target.Name].Level)
		if target.Windows == "start" {
			r.Shift = t.WindowS
		}
	}
	return r, nil
}

// sides are the variants that are left, each with what it is asked; open is called once for each target.
func (d *duel) sides(open func(*record.Target) (exchange.Source, exchange.Reading, error)) (sides []exchange.Side, err error) {
	opened := map[string]exchange.Side{}
	for _, v := range d.alive() {
		side, is := opened[v.Target]
		if !is {
			if side.Source, side.Reading, err = open(&v.target); err != nil {
				closeAll(sides)
				return nil, err
			}
			opened[v.Target] = side
		}
		side.Name, side.URL = v.Name, v.url()
		if side.Reading.Answers == "" {
			side.URL = v.written().writes
		}
		side.Used = func() (exchange.Used, error) {
			cpu, err := v.cpuByRole()
			d.marks[v.Name] = append(d.marks[v.Name], cpu)
			instructions, failed := d.counted[v.Name].Read()
			return exchange.Used{CPU: cpu.sum(), Instructions: instructions}, errors.Join(err, failed)
		}
		sides = append(sides, side)
	}
	return sides, nil
}

func closeAll(sides []exchange.Side) {
	for _, s := range sides {
		s.Source.Close() // those of one target are one: closing it again does nothing
	}
}

// send exchanges what a job's sources give between its sides, and closes them; places are the sides' columns in files.
func (d *duel) send(ctx context.Context, job exchange.Job) (result *exchange.Result, names []string, places []int, err error) {
	defer closeAll(job.Sides)
	clear(d.marks)
	for place, v := range d.Plan.Variants {
		if slices.ContainsFunc(job.Sides, func(s exchange.Side) bool { return s.Name == v.Name }) {
			names, places = append(names, v.Name), append(places, place)
		}
	}
	job.Progress = func(done int, elapsed time.Duration) {
		total := job.Until.Count
		if total == 0 {
			total = int(float64(done) * math.Max(1, job.Until.Lasts.Seconds()/elapsed.Seconds()))
		}
		d.Events.Progress(d.phase("exchange"), int64(done), int64(total))
	}
	result, err = exchange.Run(ctx, job)
	return result, names, places, err
}

// used is what a variant has used between the edges of the last phase.
func (d *duel) used(name string) usage {
	marks := d.marks[name]
	if len(marks) < 2 {
		return nil
	}
	return marks[len(marks)-1].since(marks[0])
}

// done ends a phase of exchanges.
func (s *span) done(result *exchange.Result) {
	s.over()
	s.close(min(1, len(result.Stopped)), int64(len(result.Exchanges)))
}

// keep records what a phase gave.
func (d *duel) keep(queryType string, first int, names []string, result *exchange.Result) {
	kept := record.DuelType{QueryType: queryType, Exchanges: len(result.Exchanges), Compared: len(result.Exchanges), Differences: result.Differences,
		FirstQuery: first, Seconds: result.Elapsed.Seconds(), CPUNS: map[string]int64{}, ClientCPUNS: result.ClientCPU, Stopped: result.Stopped, Counters: map[string]map[string]float64{}}
	if d.Host.Instructions {
		kept.Instructions = map[string]int64{}
	}
	for i, name := range names {
		side := result.Sides[i]
		kept.CPUNS[name] = side.CPU
		d.byRole(&kept.CPUNSByRole, name, d.used(name))
		if kept.Instructions != nil {
			kept.Instructions[name] = side.Instructions
		}
		kept.Empty += side.Empty
		if side.Failure != "" {
			kept.Errors++
		}
		if i > 0 {
			kept.Compared = min(kept.Compared, side.Compared)
			if t, ok := typical(result.Exchanges, i); ok {
				of := [2]string{name, d.state(queryType)}
				d.typical[of] = append(d.typical[of], t)
			}
		}
	}
	d.record.Types = append(d.record.Types, kept)
	if x := result.First; x != nil {
		d.differences = append(d.differences, record.Difference{QueryType: queryType, K: x.K, Query: x.Query, Variants: x.Sides[:], Bodies: x.Bodies[:], What: x.What})
	}
	share := float64(result.ClientCPU) / float64(result.Elapsed) / float64(max(1, len(d.Host.Pin.Client)))
	if share > bottleneck {
		d.Events.Note(d.block.Block, "", queryType, fmt.Sprintf("the client used %.0f %% of its CPUs: it is the bottleneck here", 100*share))
	}
}

// judge makes the checks of a phase, for each variant that took part.
func (d *duel) judge(ctx context.Context, names []string, result *exchange.Result, checks func(v *variant, side int) error) error {
	return d.all(func(v *variant) error {
		i := slices.Index(names, v.Name)
		if failure := result.Sides[i].Failure; failure != "" {
			return d.noAnswer(ctx, v, failure)
		}
		return checks(v, i)
	})
}

// noAnswer is the fault of a variant that answers no more: of a process that has died its own last words.
func (d *duel) noAnswer(ctx context.Context, v *variant, failure string) error {
	if err := d.leftBy(ctx, 1, v); err != nil {
		return err
	}
	return faultf("%s; %s", failure, lastWords(v.front()))
}

// ratios are what the forecast goes by.
func (d *duel) ratios() {
	baseline, types := d.Plan.Variants[0].Name, map[string]int{}
	for _, queryType := range d.types {
		types[d.state(queryType)]++
	}
	for _, v := range d.Plan.Variants[1:] {
		for state, n := range types {
			logs := d.typical[[2]string{v.Name, state}]
			if d.variants[v.Name].failed || len(logs) < n {
				continue
			}
			var cpu [2]float64
			for _, t := range d.record.Types {
				if d.state(t.QueryType) == state {
					cpu[0] += float64(t.CPUNS[baseline])
					cpu[1] += float64(t.CPUNS[v.Name])
				}
			}
			d.block.Ratio(v.Name, state+"_typical_ms", mean(logs))
			d.block.Ratio(v.Name, state+"_cpu_us", math.Log(cpu[1]/cpu[0]))
		}
	}
}

// state is what the metrics of a query type begin with: those of an upgrade have the window that it is over.
func (d *duel) state(queryType string) string {
	if d.when == "" {
		return "duel"
	}
	if _, window, _ := strings.Cut(queryType, "@"); window != "" {
		return "upgrade_" + window
	}
	return "upgrade_right_after"
}
