package openloop

import (
	"time"
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
	Worked func() // is called when the last operation has ended; may be nil
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
