// Package openloop sends operations to a server at times that are fixed beforehand, however slowly it
// answers, as independent clients would. Response times count from the intended start. A closed loop waits
// for each answer, so it misses the waiting times of operations that it did not send meanwhile (coordinated
// omission: Gil Tene, "How NOT to Measure Latency"; giltene/wrk2).
//
// Each connection of a stream has one worker. One worker at a time waits for the next intended start, and
// sends the operation itself: handing it to another goroutine would make the start late. While all
// connections are busy, operations queue, and their waiting counts.
package openloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"tsduel/host/bound"
	"tsduel/host/exchange"
	"tsduel/host/proc"
	"tsduel/host/record"
)

type stream struct {
	source     exchange.Source // of more operations than there are starts
	starts     []time.Duration // intended, from begin on
	skip       int             // operations of the source that are not sent
	empty      func(body []byte) (bool, error)
	begin      time.Time
	late       time.Duration
	last       time.Time // no operation starts after it
	operations chan exchange.Operation
	primed     func()
	broken     error // of the source
	conns      []*exchange.Conn

	turn sync.Mutex // of the worker that waits for the next start
	next int

	mutex     sync.Mutex
	result    *Result   // of this window, or of all
	idle      int       // free connections
	idleSince time.Time // there is a free connection since then
	spun      time.Duration
}

// Run runs a job. Its errors are never the server's: ctx has ended, or a source is broken. If the server
// cannot be reached, all operations have failed.
func Run(ctx context.Context, job Job) (results []*Result, totals Totals, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var streams []*stream
	var reading sync.WaitGroup
	defer func() {
		cancel()
		reading.Wait()
		for _, s := range streams {
			s.close()
		}
	}()
	for _, planned := range job.Streams {
		s, err := job.open(planned)
		if err != nil {
			return nil, totals, err
		}
		streams, results = append(streams, s), append(results, newResult())
		if err := s.prepare(ctx, planned, &reading); err != nil {
			return nil, totals, err
		}
	}
	// As for exchanges: no garbage collection within a phase, unless the memory grows beyond 1 GiB.
	runtime.GC()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// A worker that sleeps until a start holds one of Go's processors, and others have to read answers
	// meanwhile. More processors than that would spin in search of work. Afterwards Go follows our CPUs again.
	runtime.GOMAXPROCS(len(proc.Allowed()) + len(streams))
	defer runtime.SetDefaultGOMAXPROCS()
	if job.Ready != nil {
		job.Ready()
	}
	begin := time.Now()
	cpu, _ := proc.CPU(os.Getpid())
	var working, watching sync.WaitGroup
	for _, s := range streams {
		s.begin, s.idleSince, s.idle = begin, begin, len(s.conns)
		if n := len(s.starts); n > 0 {
			s.last = begin.Add(s.starts[n-1] + job.Patience)
		}
		for _, c := range s.conns {
			working.Go(record.Caught(func() { s.work(ctx, c) }))
		}
	}
	worked := make(chan struct{})
	watching.Go(record.Caught(func() { results = job.watch(streams, results, worked) }))
	working.Wait()
	close(worked)
	watching.Wait()
	results = add(results, take(streams))
	totals.Elapsed = time.Since(begin)
	if job.Worked != nil {
		job.Worked()
	}
	for i, s := range streams {
		if err := exchange.Quiet(ctx, s.conns); err != nil {
			results[i].Wrong = cmp.Or(results[i].Wrong, err.Error())
		}
	}
	after, _ := proc.CPU(os.Getpid())
	totals.ClientCPU = after - cpu
	for _, s := range streams {
		totals.ClientCPU -= s.spun
		if s.broken != nil {
			return nil, totals, s.broken
		}
	}
	return results, totals, ctx.Err()
}

// watch reports every second how many operations have started, and every Window its results, until all have
// worked. It returns the results with those of the windows.
func (job *Job) watch(streams []*stream, results []*Result, worked <-chan struct{}) []*Result {
	second, window := time.Tick(time.Second), time.Tick(job.Window) // nil without windows
	for {
		select {
		case <-worked:
			return results
		case <-second:
			count := 0
			for i, s := range streams {
				s.mutex.Lock()
				count += results[i].Started + s.result.Started
				s.mutex.Unlock()
			}
			if job.Progress != nil {
				job.Progress(count)
			}
		case <-window:
			taken := take(streams)
			results = add(results, taken)
			job.Each(taken)
		}
	}
}

// prepare connects a stream, and reads its first operations.
func (s *stream) prepare(ctx context.Context, planned Stream, reading *sync.WaitGroup) error {
	ready := make(chan struct{})
	s.operations, s.primed = make(chan exchange.Operation, 256), sync.OnceFunc(func() { close(ready) })
	s.result = newResult()
	s.result.Planned = len(s.starts)
	urls := strings.Split(planned.URL, ",") // of replicas, which share the connections
	room := exchange.NewRoom(planned.Connections)
	for i := range planned.Connections {
		c, err := exchange.Dial(ctx, urls[i%len(urls)], planned.Timeout, room)
		if err != nil {
			return err
		}
		s.conns = append(s.conns, c)
	}
	reading.Go(record.Caught(func() { s.read(ctx) }))
	select {
	case <-ready:
	case <-ctx.Done():
	}
	return nil
}

func (s *stream) close() {
	for _, c := range s.conns {
		c.Close()
	}
	_ = s.source.Close()
}

// take returns the result of each stream since the last call.
func take(streams []*stream) (window []*Result) {
	for _, s := range streams {
		s.mutex.Lock()
		window, s.result = append(window, s.result), newResult()
		s.mutex.Unlock()
	}
	return window
}

// read reads operations from the source ahead of their starts.
func (s *stream) read(ctx context.Context) {
	defer s.primed()
	defer close(s.operations)
	for k := range s.starts {
		operation, err := s.source.Next()
		for ; err == nil && s.skip > 0; s.skip-- {
			operation, err = s.source.Next()
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("there are no more than %d operations, and %d were planned", k, len(s.starts))
		}
		if err != nil {
			s.broken = err
			return
		}
		select {
		case s.operations <- operation:
			continue
		default:
			s.primed()
		}
		select {
		case s.operations <- operation:
		case <-ctx.Done():
			return
		}
	}
}

// work sends operations over one connection, until all are sent or the time is over.
func (s *stream) work(ctx context.Context, c *exchange.Conn) {
	for {
		operation, intended, due := s.lead(ctx, c)
		if !due {
			return
		}
		start := time.Now()
		s.started(intended, start)
		body, err := c.Send(ctx, &operation)
		end := time.Now()
		empty := false
		if err == nil && s.empty != nil {
			empty, err = s.empty(body)
		}
		c.Release()
		s.done(intended, start, end, operation.Lines, empty, err)
	}
}

// lookAhead is how long before a start its connection is looked at. Behind the schedule there is no time for it.
const lookAhead = 20 * time.Microsecond

// lead waits for the next intended start. Meanwhile the other workers wait for their turn.
func (s *stream) lead(ctx context.Context, c *exchange.Conn) (operation exchange.Operation, intended time.Time,
	due bool) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.next == len(s.starts) || ctx.Err() != nil {
		return operation, intended, false
	}
	if now := time.Now(); now.After(s.last) {
		s.giveUp(now)
		return operation, intended, false
	}
	intended = s.begin.Add(s.starts[s.next])
	select {
	case operation, due = <-s.operations:
	case <-ctx.Done():
	}
	if !due {
		return operation, intended, false
	}
	s.next++
	if time.Until(intended) > lookAhead {
		s.spun += wait(ctx, intended.Add(-lookAhead))
		c.Look()
	}
	s.spun += wait(ctx, intended)
	return operation, intended, true
}

// giveUp counts the operations that have not started.
func (s *stream) giveUp(now time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for ; s.next < len(s.starts); s.next++ {
		s.result.Unstarted++
		s.result.Response.put(now.Sub(s.begin.Add(s.starts[s.next])))
	}
}

func (s *stream) started(intended, start time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.idle--
	s.result.Started++
	from := intended
	if s.idleSince.After(intended) {
		from = s.idleSince
	}
	late := start.Sub(from)
	s.result.Lateness.put(late)
	if late > s.late {
		s.result.Late++
	} else if start.Sub(intended) > s.late {
		s.result.Queued++
	}
}

func (s *stream) done(intended, start, end time.Time, lines int, empty bool, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.idle == 0 {
		s.idleSince = end
	}
	s.idle++
	if err != nil {
		if s.result.Failed++; s.result.Failure == "" {
			s.result.Failure = err.Error()
		}
		if theirs, ok := errors.AsType[bound.Theirs](err); ok {
			s.result.Wrong = cmp.Or(s.result.Wrong, theirs.Error())
		}
		return
	}
	s.result.Answered++
	s.result.Lines += int64(lines)
	if empty {
		s.result.Empty++
	}
	s.result.Response.put(end.Sub(intended))
	s.result.Service.put(end.Sub(start))
}

// open returns a stream, which has to be closed.
func (job *Job) open(whole Stream) (s *stream, err error) {
	s = &stream{skip: whole.Skip, starts: whole.Starts(), late: job.LateAfter}
	if whole.Lines != nil {
		s.source, err = exchange.OpenBatches(whole.Lines.File, whole.Lines.Path, whole.Lines.Size)
		return s, err
	}
	s.empty = exchange.Empty(whole.Answers)
	var files []exchange.Source
	for _, q := range whole.Queries {
		source, failed := exchange.OpenQueries(q.Path, q.First, q.Arguments, true)
		if err = errors.Join(err, failed); failed == nil {
			files = append(files, source)
		}
	}
	s.source = exchange.Turns(files...)
	if err != nil {
		_ = s.source.Close()
	}
	return s, err
}
