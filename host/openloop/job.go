package openloop

import (
	"cmp"
	"errors"
	"time"

	"tsduel/host/exchange"
)

// Job is streams that run together.
type Job struct {
	Streams   []Stream
	LateAfter time.Duration // a start is late after this
	Patience  time.Duration // how long after the last intended start an operation may still start

	Progress func(started int) // may be nil
	// Each is called after every Window with the results of that window alone.
	Window time.Duration
	Each   func(window []*Result)
	Ready  func() // is called when all is ready, just before the begin; may be nil
}

// Stream is queries from several files in turn, or batches of lines, without the first Skip operations.
type Stream struct {
	Schedule
	Queries     []Queries
	Lines       *Lines
	Skip        int
	URL         string
	Connections int
	Timeout     time.Duration // of one operation
	Answers     string        // the format of answers to queries, for exchange.Empty; "": not looked at
}

// Queries are the arguments of exchange.OpenQueries, around.
type Queries struct {
	Path      string
	First     int
	Arguments string
}

// Lines are the arguments of exchange.OpenBatches.
type Lines struct {
	File, Path string
	Size       int
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

// add adds up the results of windows, stream by stream.
func add(windows ...[]*Result) (sums []*Result) {
	for i := range windows[0] {
		sum := newResult()
		for _, results := range windows {
			r := results[i]
			for total, count := range map[*int]int{&sum.Planned: r.Planned, &sum.Started: r.Started, &sum.Answered: r.Answered,
				&sum.Failed: r.Failed, &sum.Unstarted: r.Unstarted, &sum.Queued: r.Queued, &sum.Late: r.Late, &sum.Empty: r.Empty} {
				*total += count
			}
			sum.Lines += r.Lines
			sum.Failure, sum.Wrong = cmp.Or(sum.Failure, r.Failure), cmp.Or(sum.Wrong, r.Wrong)
			sum.Response.Merge(r.Response.Histogram)
			sum.Service.Merge(r.Service.Histogram)
			sum.Lateness.Merge(r.Lateness.Histogram)
		}
		sums = append(sums, sum)
	}
	return sums
}
