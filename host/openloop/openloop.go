// Package openloop sends operations to one server at times that are fixed before the first of them, however slowly it
// answers, as independent clients would. Response time is counted from the intended start: a closed loop, which waits
// for an answer before it asks again, never sees what all the others would have waited for meanwhile (coordinated
// omission: Gil Tene, "How NOT to Measure Latency"; giltene/wrk2).
//
// Each stream has so many connections, one worker each. One worker at a time waits for the next intended start, and
// sends by itself what is due then: no operation is handed from one goroutine to another, which is what makes starts
// late. While all connections wait for the server, operations wait in line, and their time counts.
package openloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"tsduel/host/exchange"
)

// Stream is operations of one kind.
type Stream struct {
	Source      exchange.Source // at least as many as Starts; its owner closes it
	Starts      []time.Duration // intended, ascending, from the begin
	URL         string
	Connections int
	Timeout     time.Duration // of one operation
	Success     func(status int) bool
	Empty       func(body []byte) (bool, error) // nil: nobody looks into the answers
}

// Job is what runs at once.
type Job struct {
	Streams []Stream
	// LateAfter is from when on a start is late; Patience how long after the last intended start one may still begin.
	LateAfter, Patience time.Duration
	Progress            func(done int)
	// Meet is called once everything is ready to be sent, and says when to begin; nil: at once.
	Meet func(context.Context) (time.Time, error)
}

// Result is what a stream gave. Planned = Started + Unstarted, and Started = Answered + Failed.
type Result struct {
	Planned, Started, Answered, Failed int
	// Unstarted are those for which no connection was free in time. They are in Response with what they had waited for
	// by then, which is less than they would have.
	Unstarted int
	Queued    int    // started when a connection was free again, later than LateAfter
	Late      int    // started later than LateAfter though a connection was free: the client's doing
	Empty     int    // answers without data
	Lines     int64  // of batches that were answered
	Failure   string // the first one
	// In ns: from the intended start to the answer's end; from the start to it; from the intended start, or the moment
	// since when a connection was free, to the start.
	Response, Service, Lateness *hdrhistogram.Histogram
}

// Totals are of all streams together.
type Totals struct {
	Began     time.Time
	Elapsed   time.Duration // from the begin to the last answer
	ClientCPU time.Duration // of this process, but for what it waited awake
}

// Three digits are 0.1 %; above an hour nothing is told apart.
const highest = int64(time.Hour)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, highest, 3) }

func put(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 1), highest))
}

type stream struct {
	Stream
	begin      time.Time
	late       time.Duration
	last       time.Time // after which nothing begins any more
	operations chan exchange.Operation
	primed     func()
	broken     error // why there are no more operations than these
	conns      []exchange.Conn

	turn sync.Mutex // of the worker that waits for the next start
	next int

	mutex     sync.Mutex
	result    *Result
	idle      int
	idleSince time.Time // a connection is free since then
	spun      time.Duration
}

// Run runs a job. An error is none of the server's doing: ctx has ended, or a source is broken. A server that cannot be
// connected to has failed every operation.
func Run(ctx context.Context, job Job) (results []*Result, totals Totals, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	streams := make([]*stream, len(job.Streams))
	var reading sync.WaitGroup
	for i, asked := range job.Streams {
		ready := make(chan struct{})
		s := &stream{Stream: asked, late: job.LateAfter, operations: make(chan exchange.Operation, 256), primed: sync.OnceFunc(func() { close(ready) }),
			result: &Result{Planned: len(asked.Starts), Response: newHistogram(), Service: newHistogram(), Lateness: newHistogram()}}
		streams[i], results = s, append(results, s.result)
		for range asked.Connections {
			c, err := exchange.Dial(ctx, asked.URL, asked.Timeout)
			if err != nil {
				return nil, totals, err
			}
			defer c.Close()
			s.conns = append(s.conns, c)
		}
		reading.Go(func() { s.read(ctx) })
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
	defer reading.Wait()
	defer cancel()
	// As for exchanges: nothing of ours is collected within a phase, unless it grows beyond any measure.
	runtime.GC()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// Who sleeps until a start holds a processor of Go's for a while, and answers are to be read meanwhile. No more than
	// that: those without work look for some.
	var ours unix.CPUSet
	if err := unix.SchedGetaffinity(0, &ours); err != nil {
		return nil, totals, fmt.Errorf("reading which CPUs are ours: %w", err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(ours.Count() + len(streams)))
	begin := time.Now()
	if job.Meet != nil {
		if begin, err = job.Meet(ctx); err != nil {
			return nil, totals, err
		}
		wait(ctx, begin)
	}
	totals.Began = time.Now()
	cpu, err := ownCPU()
	if err != nil {
		return nil, totals, err
	}
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
	stop := tell(job.Progress, streams)
	working.Wait()
	stop()
	totals.Elapsed = time.Since(begin)
	after, err := ownCPU()
	if err != nil {
		return nil, totals, err
	}
	totals.ClientCPU = after - cpu
	for _, s := range streams {
		totals.ClientCPU -= s.spun
		if s.broken != nil {
			return nil, totals, s.broken
		}
	}
	return results, totals, ctx.Err()
}

func ownCPU() (time.Duration, error) {
	var own unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own); err != nil {
		return 0, fmt.Errorf("reading this process's CPU clock: %w", err)
	}
	return time.Duration(own.Nano()), nil
}

// read takes operations from the source, some ahead of those that are due.
func (s *stream) read(ctx context.Context) {
	defer s.primed()
	defer close(s.operations)
	for k := range s.Starts {
		operation, err := s.Source.Next()
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

// work sends over one connection what is due, until everything was sent or the time for it is over.
func (s *stream) work(ctx context.Context, c exchange.Conn) {
	for {
		operation, intended, due := s.lead(ctx)
		if !due {
			return
		}
		start := time.Now()
		s.taken(intended, start)
		body, err := c.Do(ctx, &operation, s.Success)
		end := time.Now()
		empty := false
		if err == nil && s.Empty != nil {
			empty, err = s.Empty(body)
		}
		s.done(intended, start, end, operation.Lines, empty, err)
	}
}

// lead waits for the next intended start, while the other workers wait for their turn to.
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

// giveUp counts what will not be started any more.
func (s *stream) giveUp(now time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for ; s.next < len(s.Starts); s.next++ {
		s.result.Unstarted++
		put(s.result.Response, now.Sub(s.begin.Add(s.Starts[s.next])))
	}
}

func (s *stream) taken(intended, start time.Time) {
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

// tell says now and then how many operations were started.
func tell(progress func(int), streams []*stream) (stop func()) {
	if progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		clock := time.NewTicker(time.Second)
		defer clock.Stop()
		for {
			select {
			case <-done:
				return
			case <-clock.C:
				count := 0
				for _, s := range streams {
					s.mutex.Lock()
					count += s.result.Started
					s.mutex.Unlock()
				}
				progress(count)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// WriteCounts writes what a histogram has as lines of CSV: the prefix, the highest value in ns that is not told apart from
// those counted, and the count. Histograms are added by adding such lines, which percentiles cannot be.
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
