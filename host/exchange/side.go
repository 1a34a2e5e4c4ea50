package exchange

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"tsduel/host/record"
)

// Side is one of the servers. The answers of all sides are compared with those of a job's first side.
type Side struct {
	Name   string
	URL    string // http://HOST:PORT, with a prefix of paths if there is one; several with commas take turns
	Source Source // its operations; sides that get the same operations share a source
	Reading
	Used func() (Used, error) // reads what its processes have used so far; may be nil
	Turn Turn                 // nil: its processes run while others are asked
}

// Reading is how a side's answers are read, and how far they are compared with the first side's.
type Reading struct {
	Answers  string         // their format; "" for batches of data: nothing is compared
	Volatile *regexp.Regexp // what may differ in the bytes of two equal answers of the same database, or nil
	Level    Level
	// Of different databases: the prefix of fields' names, and the seconds from a point to its window's end.
	Prefix string
	Shift  float64
}

// Used is CPU time in ns, and retired instructions, 0 where they are not counted.
type Used struct{ CPU, Instructions int64 }

// Turn lets all processes of a side stand still while another side is asked, and lets them go on.
type Turn interface {
	Hold() error    // returns when they stand still
	Release() error // returns when they may run
}

// Tally is one side's part of a result.
type Tally struct {
	Used               // in the phase
	Compared    int    // answers that were compared with the first side's
	Differences int    // answers that differ from the first side's
	Empty       int    // answers without data
	Failure     string // why it is out, "" if it is not
}

// side is a Side in a phase: its connections, and a slot for each operation of a burst.
type side struct {
	Side
	tally      *Tally
	workers    []*Conn // inFlight of each address, the addresses in turn
	next       int     // of workers
	inFlight   int
	operations []Operation // of this burst
	bodies     [][]byte
	ns         []int64
	errs       []error
	room       *Room // of the answers of a burst
}

// failed says that an operation of this burst had an error.
func (s *side) failed() bool {
	return s.tally.Failure != "" || slices.ContainsFunc(s.errs, func(err error) bool { return err != nil })
}

var errNotAsked = errors.New("not asked, since an operation before it has failed")

// ask sends operations to one side, and returns when all are answered: a burst by its next workers, others each by the
// next one. So each of several addresses gets the same operations, however long a turn is.
func (s *side) ask(ctx context.Context, operations []Operation) {
	s.room.clear()
	if s.inFlight == 1 { // no other goroutine: it would be noise
		failed := false
		for i := range operations {
			failed = !s.send(ctx, s.asking()[0], &operations[i], i, failed)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for _, c := range s.asking() {
		all.Go(record.Caught(func() {
			failed := false
			for i := next.Add(1) - 1; i < int64(len(operations)); i = next.Add(1) - 1 {
				failed = !s.send(ctx, c, &operations[i], int(i), failed)
			}
		}))
	}
	all.Wait()
}

// asking returns the next workers, as many as are in flight.
func (s *side) asking() []*Conn {
	workers := s.workers[s.next : s.next+s.inFlight]
	s.next = (s.next + s.inFlight) % len(s.workers)
	return workers
}

// send sends operation i, but not after one that failed: it would wait as long. It returns whether it was answered.
func (s *side) send(ctx context.Context, c *Conn, operation *Operation, i int, failed bool) bool {
	if failed {
		s.bodies[i], s.errs[i], s.ns[i] = s.bodies[i][:0], errNotAsked, 0
		return false
	}
	c.body, c.taken = s.bodies[i], 0 // earlier answers are held until the next burst
	s.bodies[i], s.errs[i] = c.Do(ctx, operation)
	s.ns[i] = c.ns
	if s.errs[i] != nil {
		s.bodies[i], s.ns[i] = s.bodies[i][:0], 0
	}
	return s.errs[i] == nil
}
