package block

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tsduel/host/exchange"
	"tsduel/host/openloop"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	// ratesPatience is how long after the last intended start an operation may still begin.
	ratesPatience = time.Second
	// leadFor is how long a fresh process is asked before anything counts, a phase's length at most: its first answers open
	// files and fill caches, and would be all that p99 sees.
	leadFor = 2 * time.Second
	// missedInARow is how many rungs that are not held end a ladder: one may be the machine's doing.
	missedInARow = 2
)

// rates is one variant, alone on its own loaded directory, that is sent operations whose starts are fixed beforehand.
type rates struct {
	*variant
	rule   record.Rates
	record record.RatesPart
	counts io.Writer      // of its histograms
	sent   map[string]int // operations so far, by kind
}

// atRates makes a part of a block of what each variant does at fixed rates. Alone, since two servers at work would share
// the machine.
func atRates(part string, work func(*frame, context.Context, *rates) error) func(context.Context, *frame) error {
	return func(ctx context.Context, f *frame) (err error) {
		if client := f.Host.Pin.Client; len(client) > 0 {
			undo, err := proc.Pin(client)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, undo()) }()
		}
		for _, name := range f.Row.Order {
			r := &rates{variant: f.variants[name], sent: map[string]int{}}
			if r.failed {
				continue
			}
			if err := f.withServer(ctx, r, part, work); err != nil {
				if err := f.blame(r.variant, err); err != nil {
					return err
				}
			}
			if f.block.Void != "" || len(f.alive()) < 2 {
				return nil
			}
		}
		return nil
	}
}

// withServer starts a variant without answers that an earlier process kept, works with it, and stops it.
func (f *frame) withServer(ctx context.Context, r *rates, part string, work func(*frame, context.Context, *rates) error) (err error) {
	of := map[string]map[string]record.RatesPart{record.InMixed: f.block.Mixed, record.InCapacity: f.block.Capacity}[part]
	defer func() { of[r.Name] = r.record }()
	if r.snapshots, err = scrape.Create(filepath.Join(r.dir, part+".prom.gz"), r.target.Ticks); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.dir, part+".csv.gz"))
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(file)
	r.counts = packed
	defer func() { err = errors.Join(err, packed.Close(), file.Sync(), file.Close()) }()
	if _, err := fmt.Fprintln(packed, "rate,operation,time,value_ns,count"); err != nil {
		return err
	}
	s := f.begin(r.variant, part, "start", "")
	if err := f.forget(ctx, r.variant); err != nil {
		return err
	}
	sizes, err := f.sizes(ctx, r.variant)
	if err != nil {
		return err
	}
	if !f.equalStart(r.variant, sizes["cache_bytes"], "bytes of answers on disk") {
		return r.close(true)
	}
	if _, err := f.readOnce(r.variant); err != nil {
		return err
	}
	if _, err := f.launch(ctx, r.variant, part+"-", f.Host.Pin.Server); err != nil {
		return err
	}
	begin := time.Now()
	if _, err := f.waitQuiet(ctx, r.variant, r.target.Quiet, 1, begin, begin.Add(record.Seconds(f.Plan.Settle.TimeoutS))); err != nil {
		return err
	}
	r.record.IdleS = time.Since(begin).Seconds()
	s.close(0, 0)
	if err := work(f, ctx, r); err != nil {
		return err
	}
	if err := f.sameProcess(r.variant); err != nil {
		return err
	}
	s = f.begin(r.variant, part, "stop", "")
	if _, err := f.shutdown(ctx, r.variant); err != nil {
		return err
	}
	s.close(0, 0)
	return r.close(false)
}

// mixed is lines and queries at once. The lines are of a window behind the one that was loaded, so that all are new.
func (f *frame) mixed(ctx context.Context, r *rates) error {
	m := f.Plan.Mixed
	r.rule = m.Rates
	data, ok := f.Workload.MixedFor(r.target.DataFormat)
	if !ok {
		return fmt.Errorf("raw/workload.json has no data of mixed in format %q", r.target.DataFormat)
	}
	lines, err := exchange.OpenBatches(cmp.Or(data.FeedPath, data.Path), r.target.WritePath, m.BatchSize)
	if err != nil {
		return err
	}
	defer lines.Close()
	queries, err := f.inTurn(r, m.Queries*m.Seconds)
	if err != nil {
		return err
	}
	defer queries.Close()
	perLine := float64(f.Plan.Workload.Samples) / float64(f.Plan.Workload.Lines)
	batch := ratesStream{operation: "batch", rate: m.Ingest / perLine / float64(m.BatchSize), source: lines, success: func(status int) bool { return status/100 == 2 },
		lines: &openloop.Lines{File: cmp.Or(data.FeedPath, data.Path), Path: r.target.WritePath, Size: m.BatchSize}}
	query := f.queryStream(r, m.Queries, queries)
	if err := f.leadIn(ctx, r, query); err != nil {
		return err
	}
	s := f.begin(r.variant, record.InMixed, "mixed", "")
	phase, before, after, err := f.rate(ctx, s, r, []ratesStream{query, batch})
	if err != nil {
		return err
	}
	phase.Samples = int64(float64(phase.lines) * perLine)
	r.record.Phases = append(r.record.Phases, phase.RatePhase)
	for _, stream := range phase.Streams {
		wrong := fmt.Sprintf("%d of %d operations (%s) were not answered, the first: %s", stream.Failed, stream.Started, stream.Operation, stream.Failure)
		if err := f.equal(r.variant, "operations_answered", float64(stream.Started), float64(stream.Answered), wrong); err != nil {
			return err
		}
	}
	if len(r.queues()) > 0 {
		if err := f.arrive(ctx, r.variant, phase.Samples, before); err != nil {
			return err
		}
		after = r.metrics(ctx)
	}
	if err := f.stored(r.variant, phase.Samples, before, after); err != nil {
		return err
	}
	return f.hasData(r, before, after)
}

// ladder climbs the rates that the plan has drawn, from the lowest up: a server that is behind after one of them would
// spoil a lower one. What comes behind two that were not held in a row is not tried.
func (f *frame) ladder(ctx context.Context, r *rates) error {
	c := f.Plan.Capacity
	r.rule = c.Rates
	all := 0.0
	for _, rate := range c.Ladder {
		all += rate * c.Seconds
	}
	queries, err := f.inTurn(r, all)
	if err != nil {
		return err
	}
	defer queries.Close()
	if err := f.leadIn(ctx, r, f.queryStream(r, c.Ladder[0], queries)); err != nil {
		return err
	}
	var first, last []byte
	missed := 0
	for _, rate := range c.Ladder {
		s := f.begin(r.variant, record.InCapacity, "rung", fmt.Sprintf("%g/s", rate))
		phase, before, after, err := f.rate(ctx, s, r, []ratesStream{f.queryStream(r, rate, queries)})
		if err != nil {
			return err
		}
		if first == nil {
			first = before
		}
		last = after
		one := phase.Streams[0]
		phase.Rate = rate
		phase.Held = phase.Void == "" && one.Failed+one.Unstarted == 0 && float64(one.ResponseNS[c.Percentile]) <= c.WithinMS*1e6
		r.record.Phases = append(r.record.Phases, phase.RatePhase)
		if missed++; phase.Held {
			missed = 0
		}
		if missed == missedInARow || phase.Void != "" {
			break
		}
	}
	return f.hasData(r, first, last)
}

// hasData checks that queries hit data, and that none was answered without.
func (f *frame) hasData(r *rates, before, after []byte) error {
	empty, answered := 0, 0
	for _, phase := range r.record.Phases {
		for _, stream := range phase.Streams {
			empty, answered = empty+stream.Empty, answered+stream.Answered
		}
	}
	if empty < answered && slices.ContainsFunc(r.rule.Types, f.Plan.MayBeEmpty) {
		empty = 0
	}
	if err := f.equal(r.variant, "operations_empty", 0, float64(empty), fmt.Sprintf("%d of %d answers have no data", empty, answered)); err != nil {
		return err
	}
	return f.rowsRead(r.variant, "", before, after)
}

// inTurn gives queries of the types in turn, behind those of the blocks before as far as the files reach.
func (f *frame) inTurn(r *rates, count float64) (inTurn, error) {
	each := int(count)/len(r.rule.Types) + 1
	var of []exchange.Source
	var files []openloop.Queries
	for _, queryType := range r.rule.Types {
		file, err := f.Workload.QueriesFor(r.target, queryType)
		var source exchange.Source
		if err == nil {
			files = append(files, openloop.Queries{Path: file.Path, First: f.Row.Block * each % file.Count, Arguments: r.target.QueryArguments})
			source, err = exchange.Around(file.Path, files[len(files)-1].First, r.target.QueryArguments)
		}
		if err != nil {
			return inTurn{}, errors.Join(err, exchange.Turns(of...).Close())
		}
		of = append(of, source)
	}
	return inTurn{exchange.Turns(of...), files}, nil
}

// inTurn is a source with what it is made of, for clients on other hosts.
type inTurn struct {
	exchange.Source
	files []openloop.Queries
}

// ratesStream is operations of one kind, a second so many.
type ratesStream struct {
	operation string
	rate      float64
	source    exchange.Source
	success   func(int) bool
	empty     func([]byte) (bool, error)
	queries   []openloop.Queries // or
	lines     *openloop.Lines    // that the source is of
}

func (f *frame) queryStream(r *rates, rate float64, source inTurn) ratesStream {
	return ratesStream{operation: "query", rate: rate, source: source, queries: source.files, success: func(status int) bool { return status == http.StatusOK }, empty: exchange.Empty(r.target.Answers)}
}

// ratePhase is a phase with what is not recorded of it.
type ratePhase struct {
	record.RatePhase
	lines int64
}

func (f *frame) job(r *rates, length time.Duration, streams ...ratesStream) openloop.Job {
	job := openloop.Job{LateAfter: time.Duration(r.rule.LateMS * float64(time.Millisecond)), Patience: ratesPatience}
	for i, stream := range streams {
		schedule := f.schedule(r, i, stream.rate, length)
		url := r.url()
		if stream.operation != "query" {
			url = r.written().writes
		}
		job.Streams = append(job.Streams, openloop.Stream{Source: stream.source, Starts: schedule.Starts(), URL: url, Connections: r.rule.Connections,
			Timeout: record.Seconds(f.Plan.Watchdog.QueryStallS), Success: stream.success, Empty: stream.empty})
	}
	return job
}

// schedule is the same for every variant of a block, another in the next.
func (f *frame) schedule(r *rates, stream int, rate float64, length time.Duration) openloop.Schedule {
	return openloop.Schedule{Rate: rate, Length: length, Poisson: r.rule.Arrivals == "poisson",
		Seed: uint64(f.Plan.Design.Seed)<<32 + uint64(f.Row.Block)<<16 + uint64(len(r.record.Phases))<<4 + uint64(stream)}
}

// leadIn asks a fresh process for a while, unless it is to be cold. Nothing of it is recorded.
func (f *frame) leadIn(ctx context.Context, r *rates, stream ratesStream) error {
	if f.Plan.Queries.Cache == "cold" {
		return nil
	}
	job := f.job(r, min(leadFor, record.Seconds(r.rule.Seconds)), stream)
	r.sent[stream.operation] += len(job.Streams[0].Starts)
	_, _, err := openloop.Run(ctx, job)
	return cmp.Or(ctx.Err(), f.died(r.variant), err)
}

// rate is one phase: streams that run at once.
func (f *frame) rate(ctx context.Context, s *span, r *rates, streams []ratesStream) (phase ratePhase, before, after []byte, err error) {
	job := f.job(r, record.Seconds(r.rule.Seconds), streams...)
	planned := int64(0)
	for _, stream := range job.Streams {
		planned += int64(len(stream.Starts))
	}
	job.Progress = func(done int) { f.Events.Progress(s.Phase.Phase, int64(done), planned) }
	if before, err = r.snapshots.Edge(ctx, s.Phase.Phase, "begin", s.QueryType); err != nil {
		return phase, nil, nil, err
	}
	cpu, err := r.cpu()
	if err != nil {
		return phase, nil, nil, err
	}
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, server := range r.servers {
		go func() {
			select {
			case <-server.process.Ended():
				cancel() // nothing will be answered any more
			case <-alive.Done():
			}
		}()
	}
	s.listen(r.servers...)
	var results []*openloop.Result
	var totals openloop.Totals
	var failed error
	if len(f.clients) > 0 {
		results, totals, phase.Clients, failed = f.together(alive, r, job.Progress, streams)
	} else {
		results, totals, failed = openloop.Run(alive, job)
	}
	now, _ := r.cpu()
	if err := cmp.Or(ctx.Err(), f.died(r.variant), failed); err != nil {
		return phase, nil, nil, err
	}
	r.snapshots.Mark(s.Phase.Phase, "end", s.QueryType)
	s.over()
	who := "the client"
	phase.Seconds, phase.CPUNS, phase.ClientCPUNS = totals.Elapsed.Seconds(), int64(now-cpu), int64(totals.ClientCPU)
	phase.ClientShare = totals.ClientCPU.Seconds() / totals.Elapsed.Seconds() / float64(max(1, len(f.Host.Pin.Client)))
	if len(phase.Clients) > 0 {
		phase.SkewMS = skew(phase.Clients)
		phase.ClientShare, who = busiest(phase.Clients)
	}
	for _, server := range r.servers {
		if c, err := server.kernel(); err == nil {
			phase.RSSBytes += int64(c.RSS)
		}
	}
	if after, err = r.snapshots.Body(ctx, true); err != nil {
		return phase, nil, nil, err
	}
	phase.Counters = r.grown(before, after)
	answered := 0
	for i, result := range results {
		kept := record.RateStream{Operation: streams[i].operation, Rate: streams[i].rate, Planned: result.Planned, Started: result.Started, Answered: result.Answered,
			Failed: result.Failed, Unstarted: result.Unstarted, Queued: result.Queued, Late: result.Late, Empty: result.Empty, Failure: result.Failure,
			Connections: r.rule.Connections * (1 + len(f.clients))}
		for _, time := range []struct {
			name string
			of   *hdrhistogram.Histogram
			into *map[string]int64
		}{{"response", result.Response, &kept.ResponseNS}, {"service", result.Service, &kept.ServiceNS}, {"lateness", result.Lateness, &kept.LatenessNS}} {
			*time.into = percentiles(time.of)
			label := strconv.FormatFloat(streams[i].rate, 'g', -1, 64) + "," + kept.Operation + "," + time.name
			if err := openloop.WriteCounts(r.counts, label, time.of); err != nil {
				return phase, nil, nil, err
			}
		}
		phase.Streams = append(phase.Streams, kept)
		phase.lines += result.Lines
		answered += result.Answered
		r.sent[streams[i].operation] += result.Planned
	}
	s.close(0, int64(answered))
	f.judgeRate(s, r, &phase.RatePhase, who)
	return phase, before, after, nil
}

func percentiles(h *hdrhistogram.Histogram) map[string]int64 {
	return map[string]int64{"p50": h.ValueAtQuantile(50), "p90": h.ValueAtQuantile(90), "p99": h.ValueAtQuantile(99), "p999": h.ValueAtQuantile(99.9), "max": h.Max()}
}

// judgeRate says where the client is what was measured, which voids the phase, and where the server was behind so far
// that some operations were never sent, which does not.
func (f *frame) judgeRate(s *span, r *rates, phase *record.RatePhase, who string) {
	note := func(message string) { f.Events.Note(f.block.Block, r.Name, s.QueryType, message) }
	for _, one := range phase.Streams {
		if share := 100 * float64(one.Late) / float64(max(1, one.Started)); phase.Void == "" && share > r.rule.LatePct {
			phase.Void = fmt.Sprintf("the client does not keep this rate: %.1f %% of %d operations (%s) began over %g ms late though a connection was free (p99.9 of lateness %.1f ms), and %g %% are allowed",
				share, one.Started, one.Operation, r.rule.LateMS, float64(one.LatenessNS["p999"])/1e6, r.rule.LatePct)
		}
		if one.Unstarted > 0 {
			note(fmt.Sprintf("%d of %d operations (%s) were never sent: all %d connections waited for the server, so that its percentiles are lower bounds",
				one.Unstarted, one.Planned, one.Operation, one.Connections))
		}
	}
	if phase.Void == "" && phase.ClientShare > bottleneck {
		phase.Void = fmt.Sprintf("%s does not keep this rate: it used %.0f %% of its CPUs, and is what was measured above %.0f %%", who, 100*phase.ClientShare, 100*bottleneck)
	}
	if phase.Void != "" {
		note(phase.Void)
	}
}
