package openloop

import (
	"cmp"
	"context"
	"errors"
	"time"

	"tsduel/host/exchange"
)

// Job is streams that run together. It may be the part of one of several clients, which sends every Of-th
// operation from Part on: together they send the same operations, at the same times, as one client would.
type Job struct {
	Streams   []Stream
	Part, Of  int
	LateAfter time.Duration // a start is late after this
	Patience  time.Duration // how long after the last intended start an operation may still start

	Progress func(started int) `json:"-"` // may be nil
	// Each is called after every Window with the results of that window alone.
	Window time.Duration          `json:"-"`
	Each   func(window []*Result) `json:"-"`
	// Meet is called when all is ready, and returns the time to begin; nil: begin at once.
	Meet func(context.Context) (time.Time, error) `json:"-"`
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

// open returns this client's part of a stream. It has to be closed.
func (job *Job) open(whole Stream) (s *stream, err error) {
	s = &stream{skip: whole.Skip + job.Part, step: job.Of, late: job.LateAfter}
	all := whole.Starts()
	for k := job.Part; k < len(all); k += job.Of {
		s.starts = append(s.starts, all[k])
	}
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

// Add adds up the results of clients, stream by stream.
func Add(clients ...[]*Result) (sums []*Result) {
	for i := range clients[0] {
		sum := newResult()
		for _, results := range clients {
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
