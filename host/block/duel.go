package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/exchange"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	idleShare  = 0.01 // of a CPU: a server that uses less has nothing to do
	steadyFor  = 3    // looks in a row at the same share: so much it uses at rest
	bottleneck = 0.8  // of its CPUs: a client that uses more is what is measured
)

// Tests wait less.
var (
	idleLook = time.Second // over which idleShare is seen
	askAgain = scrape.CacheAge
)

// duel is the part of a block in which all variants are resident and are asked the same in turn.
type duel struct {
	*frame
	record      *record.DuelRecord
	exchanges   *exchangeFile
	differences []record.Difference
	typical     map[string][]float64 // by candidate, one a query type
	counted     map[string]*exchange.Instructions
	bodies      map[string][]byte // of /metrics, when they were last asked for
	asked       time.Time
}

// runDuel runs it for the variants that are left. A fault of one variant is its own; the others go on while two are left.
func runDuel(ctx context.Context, f *frame) (err error) {
	if len(f.alive()) < 2 {
		return nil
	}
	d := &duel{frame: f, differences: []record.Difference{}, typical: map[string][]float64{},
		counted: map[string]*exchange.Instructions{}, bodies: map[string][]byte{}}
	d.record = &record.DuelRecord{Start: map[string]record.DuelStart{}, Idle: []record.DuelIdle{}, Types: []record.DuelType{},
		RSSBytes: map[string]int64{}, RSSPeakBytes: map[string]int64{}}
	f.block.Duel = d.record
	if err := os.MkdirAll(d.path(""), 0o777); err != nil {
		return err
	}
	if client := f.Host.Pin.Client; len(client) > 0 {
		undo, err := proc.Pin(client)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	if f.Plan.Duel.Load {
		if err := d.ingest(ctx); err != nil || d.over() {
			return err
		}
	}
	if d.exchanges, err = createExchanges(d.path("exchanges.csv.gz"), "query_type,k,order,bytes", f.Plan.Variants); err != nil {
		return err
	}
	err = d.run(ctx)
	for _, count := range d.counted {
		count.Close()
	}
	if err = errors.Join(err, d.exchanges.close()); err != nil {
		return err
	}
	d.ratios()
	return record.WriteJSON(d.path("differences.json"), d.differences)
}

func (d *duel) path(name string) string { return filepath.Join(d.Dir, "duel", name) }

func (d *duel) run(ctx context.Context) error {
	if err := d.start(ctx); err != nil || d.over() {
		return err
	}
	if err := d.idle(ctx, "before"); err != nil || d.over() {
		return err
	}
	for i, queryType := range d.Row.QueryTypes {
		if d.Plan.Queries.Cache == "cold" && i > 0 {
			if err := d.stop(ctx); err != nil || d.over() {
				return err
			}
			if err := d.start(ctx); err != nil || d.over() {
				return err
			}
		}
		if err := d.exchange(ctx, queryType); err != nil || d.over() {
			return err
		}
	}
	if err := d.idle(ctx, "after"); err != nil || d.over() {
		return err
	}
	for _, v := range d.alive() {
		for _, s := range v.servers {
			if c, err := proc.Read(s.pid); err == nil { // else it has died, as stop will say
				d.record.RSSBytes[v.Name] += int64(c.RSS)
				d.record.RSSPeakBytes[v.Name] += int64(c.PeakRSS)
			}
		}
	}
	return d.stop(ctx)
}

// over says that there is nothing to compare any more.
func (d *duel) over() bool { return d.block.Void != "" || len(d.alive()) < 2 }

// enter begins a phase of all variants, to which their faults are put down.
func (d *duel) enter(phase, queryType string) *span {
	s := d.begin(nil, record.InDuel, phase, queryType)
	for _, v := range d.alive() {
		v.part, v.phase = record.InDuel, s.Phase
	}
	return s
}

// timed is a phase over which the host is looked at, too.
func (d *duel) timed(phase, queryType string) *span {
	s := d.enter(phase, queryType)
	s.listen(d.servers()...)
	return s
}

// all does something with every variant that is left; a fault is that variant's own.
func (d *duel) all(do func(*variant) error) error {
	for _, v := range d.alive() {
		if err := do(v); err != nil {
			if err := d.blame(v, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *duel) servers() (all []*server) {
	for _, v := range d.alive() {
		all = append(all, v.servers...)
	}
	return all
}

func (d *duel) remark(v *variant, queryType, message string) {
	fields := record.Fields{"block": d.block.Block, "message": message}
	if v != nil {
		fields["variant"] = v.Name
	}
	if queryType != "" {
		fields["query_type"] = queryType
	}
	d.Events.Emit("note", fields)
}

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
		side.IdleS = 0
		if err := d.forget(ctx, v); err != nil {
			return err
		}
		sizes, err := d.sizes(ctx, v)
		if err != nil {
			return err
		}
		side.CachesDeleted = d.equalStart(v, sizes["cache_bytes"], "bytes of answers on disk")
		side.DataReadBytes, err = readOnce(v.data, d.Plan.Queries.Cache == "cold")
		d.record.Start[v.Name] = side
		return err
	})
	if err != nil || d.over() {
		return err
	}
	err = d.all(func(v *variant) error {
		if _, err := d.launch(ctx, v, "duel-", d.Host.Pin.Server); err != nil {
			return err
		}
		// Answers may be kept elsewhere than under its directory: the server itself says what it came up with.
		if counter, has := v.target.Counters["answers_kept"]; has {
			kept, _, err := scrape.Sum(v.metrics(ctx), counter)
			if err != nil {
				return err
			}
			d.equalStart(v, int64(kept), "cached answers in its memory")
		}
		return nil
	})
	if err != nil || d.over() {
		return err
	}
	if err := d.awaitIdle(ctx); err != nil || d.over() {
		return err
	}
	if err := d.alike(); err != nil {
		return err
	}
	if d.Host.Instructions {
		return d.all(func(v *variant) (err error) {
			d.counted[v.Name].Close()
			d.counted[v.Name], err = exchange.CountInstructions(slices.Collect(maps.Values(v.pids()))...)
			if dead := d.died(v); dead != nil {
				return dead
			}
			return err
		})
	}
	return nil
}

// equalStart voids the block where a side comes with answers of an earlier process: that makes everything which follows
// wrong, and precisely so (MEASUREMENT.md 0).
func (d *duel) equalStart(v *variant, kept int64, what string) bool {
	c := record.Check{Check: "equal_start", Phase: "start", Actual: float64(kept), OK: kept == 0,
		Message: fmt.Sprintf("unequal starts: %s began with %d %s, which an earlier process left", v.Name, kept, what)}
	if err := d.check(v, c); err != nil && d.block.Void == "" {
		d.block.Void = err.Error()
	}
	return c.OK
}

// alike notes it where the data lie in different numbers of parts, which is chance: one part or two was 20 % for queries
// that read much (docs/method.md). settle.mode: merged makes them one.
func (d *duel) alike() error {
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range d.alive() {
		counter, has := v.target.Counters["parts"]
		parts, found, err := scrape.Sum(d.bodies[v.Name], counter)
		if err != nil {
			return err
		}
		if !has || !found {
			return nil
		}
		least, most = min(least, parts), max(most, parts)
	}
	if least != most {
		d.remark(nil, "", fmt.Sprintf("the data lie in %v parts on one side and in %v on another, by chance: SET=\"settle.mode=merged\" makes them alike", least, most))
	}
	return nil
}

// readOnce reads every file below a directory, so that the page cache has what fits; or, to be cold, has the kernel drop
// what it has of them, which needs no rights. What a database has written it has synced when it was stopped.
func readOnce(dir string, drop bool) (bytes int64, err error) {
	buffer := make([]byte, 1<<20)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		if drop {
			return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{file}, buffer)
		bytes += n
		return err
	})
	if err != nil {
		return bytes, fmt.Errorf("reading the databases' files once: %w", err)
	}
	return bytes, nil
}

// awaitIdle waits until no server has anything left to do: no merges, and under 1 % of a CPU over a second. One that keeps
// using the same share does so at rest; it is named, as is one that finds no rest in time.
func (d *duel) awaitIdle(ctx context.Context) error {
	begin := time.Now()
	shares := map[string][]float64{}
	for waiting := true; waiting; {
		used, seconds, err := d.watch(ctx, idleLook)
		if err == nil {
			err = d.ask(ctx)
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
			busy, _, err := v.work(d.bodies[v.Name], v.target.Quiet)
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
				d.remark(v, "", fmt.Sprintf("it uses %.1f %% of a CPU when nobody asks", 100*share))
			case late:
				side.IdleTimeout = true
				d.remark(v, "", fmt.Sprintf("it was not idle within %.0f s (%.1f %% of a CPU, %.0f merges and the like): its exchanges have that beside them", elapsed.Seconds(), 100*share, busy))
			default:
				waiting = true
				return nil
			}
			side.IdleS = elapsed.Seconds()
			d.record.Start[v.Name] = side
			return nil
		})
		if err != nil || d.over() {
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
				return d.gone(ctx, v, err.Error())
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

// ask asks all for their /metrics, not before they would give the last answer again.
func (d *duel) ask(ctx context.Context) error {
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

// idle is a phase in which nobody asks.
func (d *duel) idle(ctx context.Context, when string) error {
	s := d.timed("idle", when)
	used, seconds, err := d.watch(ctx, record.Seconds(d.Plan.Duel.IdleS))
	s.over(d.servers()...)
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
func (d *duel) exchange(ctx context.Context, queryType string) error {
	target := d.variants[d.Plan.Variants[0].Name].target
	file, ok := d.Workload.QueriesFor(target.QueryFormat, queryType)
	if !ok {
		return fmt.Errorf("raw/workload.json has no queries of %s in format %q", queryType, target.QueryFormat)
	}
	rule := d.Plan.Duel
	job := exchange.Job{InFlight: rule.InFlight, Timeout: record.Seconds(d.Plan.Watchdog.QueryStallS), Answers: target.Answers, MostDifferences: rule.MostDifferences,
		Until: exchange.Until{Lasts: record.Seconds(rule.Seconds), Longest: record.Seconds(rule.LongestS), Least: rule.Least, Fewest: rule.Fewest}}
	if target.Volatile != "" {
		var err error
		if job.Volatile, err = regexp.Compile(target.Volatile); err != nil {
			return fmt.Errorf("the target's volatile: %w", err)
		}
	}
	first := 0
	if d.Calibration != nil && d.Calibration.Counts[queryType] > 0 {
		job.Until = exchange.Until{Count: d.Calibration.Counts[queryType]}
		first = d.Row.Block * job.Until.Count
	}
	open := func() (exchange.Source, error) { return exchange.OpenQueries(file.Path, first) }
	if d.Plan.Queries.Cache == "warm" {
		warmed, _, _, err := d.send(ctx, job, open)
		if err == nil {
			err = d.ask(ctx)
		}
		if err != nil {
			return err
		}
		job.Until = exchange.Until{Count: max(1, len(warmed.Exchanges))}
	}
	before, s := maps.Clone(d.bodies), d.timed("exchange", queryType) // nothing was asked of them since
	result, names, places, err := d.send(ctx, job, open)
	if err != nil {
		return err
	}
	s.done(d.servers(), result)
	if err := d.exchanges.add(queryType+",", places, len(d.Plan.Variants), result.Exchanges); err != nil {
		return err
	}
	d.keep(queryType, first, names, result)
	asked := max(job.Until.Count, len(result.Exchanges))
	return d.judge(ctx, names, result, func(v *variant, i int) error {
		side := result.Sides[i]
		d.record.Types[len(d.record.Types)-1].Counters[v.Name] = v.grown(before[v.Name], d.bodies[v.Name])
		check := func(name string, expected, actual int, wrong string) error {
			return d.equal(v, name, float64(expected), float64(actual), wrong)
		}
		if i > 0 {
			what := ""
			if result.First != nil {
				what = fmt.Sprintf(", first in exchange %d: %s", result.First.K, result.First.What)
			}
			if err := check("exchanges_same", 0, side.Differences, fmt.Sprintf("%d of %d answers to %s are not the same as %s's%s (duel/differences.json has both)",
				side.Differences, side.Compared, queryType, names[0], what)); err != nil {
				return err
			}
			if err := check("exchanges_answered", asked, side.Compared, fmt.Sprintf("%d of %d exchanges of %s were compared: %s", side.Compared, asked, queryType, result.Stopped)); err != nil {
				return err
			}
		}
		if err := check("exchanges_empty", 0, side.Empty, fmt.Sprintf("%d of %d answers to %s have no data", side.Empty, len(result.Exchanges), queryType)); err != nil {
			return err
		}
		return d.rowsRead(v, queryType, before[v.Name], d.bodies[v.Name])
	})
}

// send exchanges what a source gives between all variants that are left; places are the sides' columns in files.
func (d *duel) send(ctx context.Context, job exchange.Job, open func() (exchange.Source, error)) (result *exchange.Result, names []string, places []int, err error) {
	for place, one := range d.Plan.Variants {
		v := d.variants[one.Name]
		if v.failed {
			continue
		}
		names, places = append(names, v.Name), append(places, place)
		job.Sides = append(job.Sides, exchange.Side{Name: v.Name, URL: v.url(), Used: func() (exchange.Used, error) {
			cpu, err := v.cpu()
			instructions, failed := d.counted[v.Name].Read()
			return exchange.Used{CPU: int64(cpu), Instructions: instructions}, errors.Join(err, failed)
		}})
	}
	job.Progress = func(done int, elapsed time.Duration) {
		total := job.Until.Count
		if total == 0 {
			total = int(float64(done) * math.Max(1, job.Until.Lasts.Seconds()/elapsed.Seconds()))
		}
		d.Events.Progress("exchange", int64(done), int64(total))
	}
	if job.Source, err = open(); err != nil {
		return nil, nil, nil, err
	}
	defer job.Source.Close()
	result, err = exchange.Run(ctx, job)
	return result, names, places, err
}

// done ends a phase of exchanges.
func (s *span) done(servers []*server, result *exchange.Result) {
	s.over(servers...)
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
				d.typical[name] = append(d.typical[name], t)
			}
		}
	}
	d.record.Types = append(d.record.Types, kept)
	if x := result.First; x != nil {
		d.differences = append(d.differences, record.Difference{QueryType: queryType, K: x.K, Query: x.Query, Variants: x.Sides[:], Bodies: x.Bodies[:], What: x.What})
	}
	share := float64(result.ClientCPU) / float64(result.Elapsed) / float64(max(1, len(d.Host.Pin.Client)))
	if share > bottleneck {
		d.remark(nil, queryType, fmt.Sprintf("the client used %.0f %% of its CPUs: it is the bottleneck here", 100*share))
	}
}

// judge makes the checks of a phase, for each variant that took part.
func (d *duel) judge(ctx context.Context, names []string, result *exchange.Result, checks func(v *variant, side int) error) error {
	if err := d.ask(ctx); err != nil {
		return err
	}
	return d.all(func(v *variant) error {
		i := slices.Index(names, v.Name)
		if failure := result.Sides[i].Failure; failure != "" {
			return d.gone(ctx, v, failure)
		}
		return checks(v, i)
	})
}

// gone is the fault of a variant that answers no more: of a process that has died its own last words.
func (d *duel) gone(ctx context.Context, v *variant, failure string) error {
	for _, s := range v.servers { // a connection breaks a moment before the process is gone
		select {
		case <-s.process.Ended():
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	if err := d.died(v); err != nil {
		return err
	}
	return faultf("%s; %s", failure, lastWords(v.front().log))
}

// ingest is exchanged ingestion: the data in batches to all in turn, on directories that are empty before and gone after.
func (d *duel) ingest(ctx context.Context) (err error) {
	target := d.variants[d.Plan.Variants[0].Name].target
	data, ok := d.Workload.DataFor(target.DataFormat)
	if !ok || target.WritePath == "" {
		return record.UserError("duel.load: %s has no lines that could be sent to it in turn: SET=\"duel.load=false\"", target.Name)
	}
	loaded := map[*variant]string{}
	defer func() {
		for v, dir := range loaded {
			err = errors.Join(err, os.RemoveAll(v.data))
			v.data = dir
		}
		d.record.Start = map[string]record.DuelStart{}
	}()
	for _, v := range d.alive() {
		loaded[v], v.data = v.data, v.data+".exchanged"
		if err := os.MkdirAll(v.data, 0o777); err != nil {
			return err
		}
	}
	if err := d.start(ctx); err != nil || d.over() {
		return err
	}
	before, s := maps.Clone(d.bodies), d.timed("exchange", "load")
	result, names, places, err := d.send(ctx, exchange.Job{Timeout: record.Seconds(d.Plan.Watchdog.LoadStallS)}, func() (exchange.Source, error) {
		return exchange.OpenBatches(cmp.Or(data.FeedPath, data.Path), target.WritePath, d.Plan.Workload.BatchSize)
	})
	if err != nil {
		return err
	}
	s.done(d.servers(), result)
	file, err := createExchanges(d.path("load.csv.gz"), "k,order,lines", d.Plan.Variants)
	if err != nil {
		return err
	}
	if err := errors.Join(file.add("", places, len(d.Plan.Variants), result.Exchanges), file.close()); err != nil {
		return err
	}
	kept := &record.DuelLoad{Exchanges: len(result.Exchanges), Seconds: result.Elapsed.Seconds(), CPUNS: map[string]int64{}}
	for _, x := range result.Exchanges {
		kept.Lines += int64(x.Lines)
	}
	for i, name := range names {
		kept.CPUNS[name] = result.Sides[i].CPU
	}
	d.record.Load = kept
	err = d.judge(ctx, names, result, func(v *variant, _ int) error {
		wrong := fmt.Sprintf("%d of %d lines were exchanged: %s", kept.Lines, data.Lines, result.Stopped)
		if err := d.equal(v, "exchanges_answered", float64(data.Lines), float64(kept.Lines), wrong); err != nil {
			return err
		}
		return d.stored(v, before[v.Name], d.bodies[v.Name])
	})
	if err != nil || d.over() {
		return err
	}
	return d.stop(ctx)
}

// ratios are what the forecast goes by.
func (d *duel) ratios() {
	baseline := d.Plan.Variants[0].Name
	for _, v := range d.Plan.Variants[1:] {
		logs := d.typical[v.Name]
		if d.variants[v.Name].failed || len(logs) == 0 || len(logs) < len(d.Row.QueryTypes) {
			continue
		}
		var cpu [2]int64
		for _, t := range d.record.Types {
			cpu[0] += t.CPUNS[baseline]
			cpu[1] += t.CPUNS[v.Name]
		}
		all := d.block.Ratios[v.Name]
		m := mean(logs)
		all.DuelTypicalMS = &m
		if cpu[0] > 0 && cpu[1] > 0 {
			c := math.Log(float64(cpu[1]) / float64(cpu[0]))
			all.DuelCPUUS = &c
		}
		d.block.Ratios[v.Name] = all
	}
}
