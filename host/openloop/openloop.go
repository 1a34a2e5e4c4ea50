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

	"github.com/HdrHistogram/hdrhistogram-go"

	"tsduel/host/exchange"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// Stream is operations of one kind.
type Stream struct {
	Source      exchange.Source // has at least as many operations as there are Starts; Run does not close it
	Skip, Step  int             // the stream sends every Step-th operation, after the first Skip ones; 0: all
	Starts      []time.Duration // intended starts, ascending, from the begin of the phase
	URL         string
	Connections int
	Timeout     time.Duration // of one operation
	Success     func(status int) bool
	Empty       func(body []byte) (bool, error) // whether an answer has no data; nil: not checked
}

// Job is streams that run together.
type Job struct {
	Streams   []Stream
	LateAfter time.Duration // a start is late after this
	Patience  time.Duration // how long after the last intended start an operation may still start
	Progress  func(started int)
	// Each is called after every Window with the results of that window alone; nil: never.
	Window time.Duration
	Each   func(window []*Result)
	// Meet is called when all is ready, and returns the time to begin; nil: begin at once.
	Meet func(context.Context) (time.Time, error)
}

// Result is the result of a stream. Response has the waiting times of the operations that were never started.
type Result struct {
	record.Operations
	Lines int64 // of batches that were answered
	// In ns. Response: from the intended start to the end of the answer. Service: from the start to the end of
	// the answer. Lateness: from the intended start, or the moment when a connection became free, to the start.
	Response, Service, Lateness *hdrhistogram.Histogram
}

type Totals struct {
	Began     time.Time
	Elapsed   time.Duration // from the begin to the last answer
	ClientCPU time.Duration // of this process, without busy waiting
}

// highest is the highest time of a histogram, in ns. Its resolution is three digits, 0.1 %.
const highest = int64(time.Hour)

func newResult() *Result {
	empty := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, highest, 3) }
	return &Result{Response: empty(), Service: empty(), Lateness: empty()}
}

func put(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 1), highest))
}

type stream struct {
	Stream
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
	before    int       // operations that started in earlier windows
	idle      int       // free connections
	idleSince time.Time // there is a free connection since then
	spun      time.Duration
}

// Run runs a job. Its errors are never the server's: ctx has ended, or a source is broken. If the server
// cannot be reached, all operations have failed.
func Run(ctx context.Context, job Job) (results []*Result, totals Totals, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var streams []*stream
	var reading sync.WaitGroup
	for _, planned := range job.Streams {
		s, err := prepare(ctx, planned, &reading)
		defer s.close()
		if err != nil {
			return nil, totals, err
		}
		s.late = job.LateAfter
		streams, results = append(streams, s), append(results, newResult())
	}
	defer reading.Wait()
	defer cancel()
	// As for exchanges: no garbage collection within a phase, unless the memory grows beyond 1 GiB.
	runtime.GC()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// A worker that sleeps until a start holds one of Go's processors, and others have to read answers
	// meanwhile. More processors than that would spin in search of work.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(len(proc.Allowed()) + len(streams)))
	begin := time.Now()
	if job.Meet != nil {
		if begin, err = job.Meet(ctx); err != nil {
			return nil, totals, err
		}
		wait(ctx, begin)
	}
	totals.Began = time.Now()
	cpu, _ := proc.CPU(os.Getpid())
	var working sync.WaitGroup
	for _, s := range streams {
		s.begin, s.idleSince, s.idle = begin, begin, len(s.conns)
		if n := len(s.Starts); n > 0 {
			s.last = begin.Add(s.Starts[n-1] + job.Patience)
		}
		for _, c := range s.conns {
			working.Go(func() { s.work(ctx, c) })
		}
	}
	worked := make(chan struct{})
	if job.Progress != nil {
		reading.Go(func() { report(job.Progress, streams, worked) })
	}
	var watching sync.WaitGroup
	if job.Each != nil {
		watching.Go(func() {
			for clock := time.Tick(job.Window); ; {
				select {
				case <-worked:
					return
				case <-clock:
					window := take(streams)
					results = Add(results, window)
					job.Each(window)
				}
			}
		})
	}
	working.Wait()
	close(worked)
	watching.Wait()
	results = Add(results, take(streams))
	totals.Elapsed = time.Since(begin)
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

// prepare connects a stream, and reads its first operations. It has to be closed, also after an error.
func prepare(ctx context.Context, planned Stream, reading *sync.WaitGroup) (*stream, error) {
	ready := make(chan struct{})
	s := &stream{Stream: planned, operations: make(chan exchange.Operation, 256),
		primed: sync.OnceFunc(func() { close(ready) }), result: newResult()}
	s.result.Planned = len(s.Starts)
	urls := strings.Split(s.URL, ",") // of replicas, which share the connections
	for i := range s.Connections {
		c, err := exchange.Dial(ctx, urls[i%len(urls)], s.Timeout)
		if err != nil {
			return s, err
		}
		s.conns = append(s.conns, c)
	}
	reading.Go(func() { s.read(ctx) })
	select {
	case <-ready:
	case <-ctx.Done():
	}
	return s, nil
}

func (s *stream) close() {
	for _, c := range s.conns {
		c.Close()
	}
}

// take returns the result of each stream since the last call.
func take(streams []*stream) (window []*Result) {
	for _, s := range streams {
		s.mutex.Lock()
		s.before += s.result.Started
		window, s.result = append(window, s.result), newResult()
		s.mutex.Unlock()
	}
	return window
}

// read reads operations from the source ahead of their starts.
func (s *stream) read(ctx context.Context) {
	defer s.primed()
	defer close(s.operations)
	skip := s.Skip
	for k := range s.Starts {
		operation, err := s.Source.Next()
		for ; err == nil && skip > 0; skip-- {
			operation, err = s.Source.Next()
		}
		skip = s.Step - 1
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("there are no more than %d operations, and %d were planned", k, len(s.Starts))
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
		operation, intended, due := s.lead(ctx)
		if !due {
			return
		}
		start := time.Now()
		s.started(intended, start)
		body, err := c.Do(ctx, &operation, s.Success)
		end := time.Now()
		empty := false
		if err == nil && s.Empty != nil {
			empty, err = s.Empty(body)
		}
		s.done(intended, start, end, operation.Lines, empty, err)
	}
}

// lead waits for the next intended start. Meanwhile the other workers wait for their turn.
func (s *stream) lead(ctx context.Context) (operation exchange.Operation, intended time.Time, due bool) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.next == len(s.Starts) || ctx.Err() != nil {
		return operation, intended, false
	}
	if now := time.Now(); now.After(s.last) {
		s.giveUp(now)
		return operation, intended, false
	}
	intended = s.begin.Add(s.Starts[s.next])
	select {
	case operation, due = <-s.operations:
	case <-ctx.Done():
	}
	if !due {
		return operation, intended, false
	}
	s.next++
	s.spun += wait(ctx, intended)
	return operation, intended, true
}

// giveUp counts the operations that have not started.
func (s *stream) giveUp(now time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for ; s.next < len(s.Starts); s.next++ {
		s.result.Unstarted++
		put(s.result.Response, now.Sub(s.begin.Add(s.Starts[s.next])))
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
	put(s.result.Lateness, late)
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
		return
	}
	s.result.Answered++
	s.result.Lines += int64(lines)
	if empty {
		s.result.Empty++
	}
	put(s.result.Response, end.Sub(intended))
	put(s.result.Service, end.Sub(start))
}

// report reports every second how many operations have started.
func report(progress func(started int), streams []*stream, end <-chan struct{}) {
	for clock := time.Tick(time.Second); ; {
		select {
		case <-end:
			return
		case <-clock:
			count := 0
			for _, s := range streams {
				s.mutex.Lock()
				count += s.before + s.result.Started
				s.mutex.Unlock()
			}
			progress(count)
		}
	}
}

// WriteCounts writes a histogram as lines of CSV: the prefix, the highest value of a bucket in ns, and its
// count. Buckets of several histograms can be added, unlike percentiles.
func WriteCounts(w io.Writer, prefix string, h *hdrhistogram.Histogram) error {
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			if _, err := fmt.Fprintf(w, "%s,%d,%d\n", prefix, bar.To, bar.Count); err != nil {
				return err
			}
		}
	}
	return nil
}
