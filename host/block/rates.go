package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"tsduel/host/checks"
	"tsduel/host/openloop"
	"tsduel/host/pins"
	"tsduel/host/record"
	"tsduel/host/scrape"
	"tsduel/host/servers"
)

// ratesPatience is how long after the last intended start an operation may still begin. Tests wait longer.
var ratesPatience = time.Second

const (
	// leadFor is how long fresh processes, which are slow, are asked before anything counts; at most a phase.
	leadFor = 2 * time.Second
	// missedInARow is how many missed rungs in a row end a ladder: one may be the machine's fault.
	missedInARow = 2
)

// rates is one variant, alone on its own loaded directory, that is sent operations in an open loop.
type rates struct {
	*variant
	rule       record.Rates
	window     time.Duration // of how often the servers are looked at; 0: not
	record     record.RatesPart
	histograms *table
	sent       map[string]int // operations so far, by their name
}

// atRates makes a part in which each variant is alone, since two working servers would share the machine.
func atRates(part string, work func(*rates, context.Context) error) func(context.Context, *frame) error {
	return func(ctx context.Context, f *frame) error {
		return pins.Do(f.Host.Pin.Client, func() error {
			return f.all(func(v *variant) error {
				if f.decided() {
					return nil
				}
				return (&rates{variant: v, sent: map[string]int{}}).run(ctx, part, work)
			})
		})
	}
}

// run starts a variant without kept answers, does the work of its part, and stops it.
func (r *rates) run(ctx context.Context, part string, work func(*rates, context.Context) error) (err error) {
	records := r.in.block.Mixed
	if part == record.InCapacity {
		records = r.in.block.Capacity
	}
	defer func() { records[r.Name] = r.record }()
	if r.Snapshots, err = scrape.Create(filepath.Join(r.Dir, part+".prom.gz"), r.Module.Ticks); err != nil {
		return err
	}
	r.histograms, err = createTable(filepath.Join(r.Dir, part+".csv.gz"), "rate,operation,time,value_ns,count")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.histograms.Close()) }()
	s := r.begin(part, "start", "")
	if equal, _, err := r.Equalize(ctx); err != nil || !equal {
		return errors.Join(err, r.Close(true))
	}
	if _, err := r.Launch(ctx, part+"-", r.in.Host.Pin.Server); err != nil {
		return err
	}
	begin := time.Now()
	deadline := begin.Add(record.Seconds(r.in.Plan.Settle.TimeoutS))
	if _, err := r.waitQuiet(ctx, r.Module.Quiet, 1, begin, deadline); err != nil {
		return err
	}
	r.record.IdleS = time.Since(begin).Seconds()
	s.close(0, 0)
	if err := work(r, ctx); err != nil {
		return err
	}
	if err := r.SameProcess(); err != nil {
		return err
	}
	s = r.begin(part, "stop", "")
	if _, err := r.Shutdown(ctx); s.ended(err) != nil {
		return err
	}
	return r.Close(false)
}

// mixed sends lines and queries at once. The lines continue the loaded data, so that all are new.
func (r *rates) mixed(ctx context.Context) error {
	m := r.in.Plan.Mixed
	r.rule = m.Rates
	if m.WindowS != nil {
		r.window = record.Seconds(*m.WindowS)
	}
	data := record.OfFormat(r.in.Workload.Mixed, r.Module.DataFormat)
	if len(data) == 0 {
		return fmt.Errorf("raw/workload.json has no data of mixed in format %q", r.Module.DataFormat)
	}
	query, err := r.queries(m.Queries, m.Queries*m.Seconds)
	if err != nil {
		return err
	}
	perLine := float64(r.in.Plan.Workload.Samples) / float64(r.in.Plan.Workload.Lines)
	lines := openloop.Lines{File: cmp.Or(data[0].FeedPath, data[0].Path), Path: r.Module.WritePath, Size: m.BatchSize}
	batch := openloop.Stream{Lines: &lines}
	batch.Rate = m.Ingest / perLine / float64(m.BatchSize)
	if err := r.leadIn(ctx, query); err != nil {
		return err
	}
	s := r.begin(record.InMixed, "mixed", "")
	phase, before, after, err := r.runPhase(ctx, s, query, batch)
	if err != nil {
		return err
	}
	r.record.Phases = append(r.record.Phases, *phase)
	for _, stream := range phase.Streams {
		if err := r.Equal("operations_answered", int64(stream.Started), int64(stream.Answered), "%d of %d operations (%s) "+
			"were not answered, the first: %s", stream.Failed, stream.Started, stream.Operation, stream.Failure); err != nil {
			return err
		}
	}
	if len(r.queues()) > 0 {
		if _, err := r.arrive(ctx, phase.Samples, before, arriveEvery); err != nil {
			return err
		}
		after = r.Metrics(ctx)
	}
	if err := r.stored(phase.Samples, before, after); err != nil {
		return err
	}
	return r.hasData(before, after)
}

// ladder climbs the planned rates from the lowest up: a server that is behind would spoil a lower rate.
func (r *rates) ladder(ctx context.Context) error {
	c := r.in.Plan.Capacity
	r.rule = c.Rates
	count := 0.0
	for _, rate := range c.Ladder {
		count += rate * c.Seconds
	}
	query, err := r.queries(c.Ladder[0], count)
	if err != nil {
		return err
	}
	if err := r.leadIn(ctx, query); err != nil {
		return err
	}
	var first, last []byte
	missed := 0
	for _, rate := range c.Ladder {
		query.Rate = rate
		s := r.begin(record.InCapacity, "rung", record.Decimal(rate)+"/s")
		phase, before, after, err := r.runPhase(ctx, s, query)
		if err != nil {
			return err
		}
		if first == nil {
			first = before
		}
		last = after
		phase.Rate = rate
		phase.Held = held(c, phase)
		r.record.Phases = append(r.record.Phases, *phase)
		if missed++; phase.Held {
			missed = 0
		}
		if missed == missedInARow || phase.Void != "" {
			break
		}
	}
	return r.hasData(first, last)
}

// held says whether a rung was held: all was answered, in time, and response times are within the bound.
func held(c *record.Capacity, phase *record.RatePhase) bool {
	stream := phase.Streams[0]
	return phase.Void == "" && stream.Failed+stream.Unstarted == 0 &&
		float64(stream.ResponseNS[c.Percentile]) <= c.WithinMS*1e6
}

// hasData checks that all answers have data, and that the queries read some.
func (r *rates) hasData(before, after []byte) error {
	empty, answered := 0, 0
	for _, phase := range r.record.Phases {
		for _, stream := range phase.Streams {
			empty, answered = empty+stream.Empty, answered+stream.Answered
		}
	}
	err := r.Equal("operations_empty", int64(r.in.mayBeEmpty(empty, answered, r.rule.Types...)), int64(empty),
		"%d of %d answers have no data", empty, answered)
	if err != nil {
		return err
	}
	return r.rowsRead("", before, after)
}

// queries are queries of all types in turn at a rate. A block needs count of them, and begins after those of
// the blocks before as far as the files reach.
func (r *rates) queries(rate, count float64) (stream openloop.Stream, err error) {
	stream.Rate = rate
	each := int(count)/len(r.rule.Types) + 1
	for _, queryType := range r.rule.Types {
		file, err := r.in.Workload.QueriesFor(r.Module, queryType)
		if err != nil {
			return stream, err
		}
		stream.Queries = append(stream.Queries, openloop.Queries{Path: file.Path,
			First: r.in.Row.Block * each % file.Count, Arguments: r.Module.QueryArguments})
	}
	return stream, nil
}

// job is a phase of streams.
func (r *rates) job(length time.Duration, streams ...openloop.Stream) openloop.Job {
	job := openloop.Job{LateAfter: time.Duration(r.rule.LateMS * float64(time.Millisecond)),
		Patience: ratesPatience}
	for i, stream := range streams {
		stream.URL = r.URL()
		if stream.Lines != nil {
			stream.URL = r.WriteURL()
		}
		stream.Length, stream.Poisson = length, r.rule.Arrivals == "poisson"
		// All variants of a block have the same seed, and each block has its own.
		stream.Seed = uint64(r.in.Plan.Design.Seed)<<32 + uint64(r.in.Row.Block)<<16 +
			uint64(len(r.record.Phases))<<4 + uint64(i)
		stream.Skip, stream.Connections = r.sent[operation(stream)], r.rule.Connections
		stream.Timeout, stream.Answers = record.Seconds(r.in.Plan.Watchdog.QueryStallS), r.Module.Answers
		job.Streams = append(job.Streams, stream)
	}
	return job
}

// leadIn asks fresh processes for a while, unless they are to be cold. Nothing of it is recorded.
func (r *rates) leadIn(ctx context.Context, stream openloop.Stream) error {
	if r.in.Plan.Queries.Cache == "cold" {
		return nil
	}
	job := r.job(min(leadFor, record.Seconds(r.rule.Seconds)), stream)
	r.sent[operation(stream)] += len(job.Streams[0].Starts())
	_, _, err := openloop.Run(ctx, job)
	return cmp.Or(ctx.Err(), r.Died(), err)
}

// runPhase runs streams at once. before and after are the counters.
func (r *rates) runPhase(ctx context.Context, s *span, streams ...openloop.Stream) (phase *record.RatePhase,
	before, after []byte, err error) {
	job := r.job(record.Seconds(r.rule.Seconds), streams...)
	planned := int64(0)
	for _, stream := range job.Streams {
		planned += int64(len(stream.Starts()))
	}
	job.Progress = func(done int) { r.in.Events.Progress(s.Phase.Phase, int64(done), planned) }
	if before, err = r.Snapshots.Edge(ctx, s.Phase.Phase, "begin", s.QueryType); err != nil {
		return nil, nil, nil, err
	}
	var cpu, now servers.Usage
	var gone error
	job.Ready = func() { cpu, gone = r.CPU() }
	job.Worked = func() { // not later: what comes behind waits for as long as the slowest answer took
		if gone == nil {
			now, gone = r.CPU()
		}
	}
	if r.window > 0 {
		job.Window, job.Each = r.window, windows(r.variant, job.Streams)
	}
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, server := range r.Running {
		go record.Caught(func() {
			select {
			case <-server.Process.Ended():
				cancel() // nothing will be answered any more
			case <-alive.Done():
			}
		})()
	}
	s.listen(r.Running...)
	results, totals, failed := openloop.Run(alive, job)
	if err := cmp.Or(ctx.Err(), r.Died(), failed, gone); err != nil {
		return nil, nil, nil, err
	}
	r.Snapshots.Mark(s.Phase.Phase, "end", s.QueryType)
	s.over()
	sum, _ := r.Kernel()
	phase = &record.RatePhase{Seconds: totals.Elapsed.Seconds(), CPUNS: now.Sum() - cpu.Sum(),
		ClientCPUNS: int64(totals.ClientCPU), RSSBytes: sum.RSS}
	phase.ClientShare = totals.ClientCPU.Seconds() / max(1e-3, totals.Elapsed.Seconds()) /
		r.in.clientCPUs()
	if after, err = r.Snapshots.Body(ctx, true); err != nil {
		return nil, nil, nil, err
	}
	phase.Counters = grown(r.Module, before, after)
	answered := 0
	for i, result := range results {
		stream := job.Streams[i]
		if result.Wrong != "" {
			return nil, nil, nil, checks.Faultf("%s; %s", result.Wrong, r.QueryServer().LastWords())
		}
		result.Operations.Failure = r.in.Hidden.Mask(result.Operations.Failure)
		kept := record.RateStream{Operation: operation(stream), Rate: stream.Rate, Operations: result.Operations,
			Connections: stream.Connections, ResponseNS: percentiles(result.Response),
			ServiceNS: percentiles(result.Service), LatenessNS: percentiles(result.Lateness)}
		for _, times := range []struct {
			name string
			openloop.Times
		}{{"response", result.Response}, {"service", result.Service}, {"lateness", result.Lateness}} {
			label := record.Decimal(stream.Rate) + "," + kept.Operation + "," + times.name
			if err := openloop.WriteCounts(r.histograms, label, times.Times); err != nil {
				return nil, nil, nil, err
			}
		}
		phase.Streams = append(phase.Streams, kept)
		answered += result.Answered
		if stream.Lines != nil {
			if phase.Samples, err = r.in.samplesOf(r.Module, stream.Lines.File, result.Lines); err != nil {
				return nil, nil, nil, err
			}
		}
		r.sent[kept.Operation] += result.Planned
	}
	s.close(0, int64(answered))
	r.judge(s, phase)
	return phase, before, after, nil
}

func percentiles(h openloop.Times) map[string]int64 {
	return map[string]int64{"p50": h.ValueAtQuantile(50), "p90": h.ValueAtQuantile(90), "p99": h.ValueAtQuantile(99),
		"p999": h.ValueAtQuantile(99.9), "max": h.Max()}
}

// judge voids a phase in which the client was the bottleneck, and notes operations that were never sent.
func (r *rates) judge(s *span, phase *record.RatePhase) {
	for _, stream := range phase.Streams {
		share := 100 * float64(stream.Late) / float64(max(1, stream.Started))
		if phase.Void == "" && share > r.rule.LatePct {
			phase.Void = fmt.Sprintf("the client does not keep this rate: %.1f %% of %d operations (%s) began over %g ms "+
				"late though a connection was free (p99.9 of lateness %.1f ms), and %g %% are allowed", share, stream.Started,
				stream.Operation, r.rule.LateMS, float64(stream.LatenessNS["p999"])/1e6, r.rule.LatePct)
		}
		if stream.Unstarted > 0 {
			r.in.note(r.Name, s.QueryType, fmt.Sprintf("%d of %d operations (%s) were never sent: all %d connections waited "+
				"for the server, so that its percentiles are lower bounds", stream.Unstarted, stream.Planned,
				stream.Operation, stream.Connections))
		}
	}
	if phase.Void == "" && phase.ClientShare > bottleneck {
		phase.Void = fmt.Sprintf("the client does not keep this rate: it used %.0f %% of its CPUs, and is what was measured "+
			"above %.0f %%", 100*phase.ClientShare, 100*bottleneck)
	}
	if phase.Void != "" {
		r.in.note(r.Name, s.QueryType, phase.Void)
	}
}
