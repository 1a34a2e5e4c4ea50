// Package exchange sends each operation to several resident servers, one after the other, from one client: the timed half
// of a duel. It compares every answer, and knows nothing of blocks, phases and adapters.
package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Side is one of the servers. The first of a job's sides is the one that the others are compared with.
type Side struct {
	Name   string
	URL    string // http://HOST:PORT, and a prefix of paths if it has one
	Source Source // what it is asked, operation by operation; sides that are asked the very same share one
	Reading
	// Used reads what its processes have used so far; nil where nobody wants to know.
	Used func() (Used, error)
}

// Reading is how a side's answers are read, and how far they are compared with the first side's.
type Reading struct {
	// Answers names their format; "" compares nothing (batches of data) and wants any 2xx.
	Answers  string
	Volatile *regexp.Regexp // what may differ in the bytes of two equal answers of the same database, or nil
	Level    Level
	// Of different databases: what stands before the names of its fields, and how many seconds behind the time of a point
	// its window ends.
	Prefix string
	Shift  float64
}

// Used is CPU time in ns and the instructions that were retired, 0 where they are not counted.
type Used struct{ CPU, Instructions int64 }

// Job is one phase: operations of one kind, exchanged until Until says so or a source ends.
type Job struct {
	Sides           []Side
	Until           Until
	InFlight        int           // operations at once, to one side; more than one go in bursts of 4 x InFlight
	Timeout         time.Duration // of one operation
	MostDifferences int           // the phase stops behind this many
	Progress        func(done int, elapsed time.Duration)
}

// Until ends a phase. With a Count it lasts that many exchanges. Without one it lasts Lasts and at least Least
// exchanges, unless those take longer than Longest: then as many as fit, and at least Fewest.
// The zero Until is the end of a source.
type Until struct {
	Count          int
	Lasts, Longest time.Duration
	Least, Fewest  int
}

func (u Until) over(done int, elapsed time.Duration) bool {
	if u.room(done) <= 0 {
		return true
	}
	return u.Lasts > 0 && (done >= u.Least && elapsed >= u.Lasts || done >= u.Fewest && elapsed >= u.Longest)
}

// room is how many more exchanges may follow.
func (u Until) room(done int) int {
	if u.Count > 0 {
		return u.Count - done
	}
	return math.MaxInt
}

// Exchange is one operation, sent to every side in its own words.
type Exchange struct {
	Order string  // the sides' indices as they were asked
	Bytes int     // of the first side's answer
	Lines int     // of a batch of data
	NS    []int64 // service time of each side, 0 where it did not answer
}

// Difference is a pair of answers that do not say the same.
type Difference struct {
	K      int
	Query  string // the first side's, and the other's behind it where that is not the same
	Sides  [2]string
	Bodies [2]string // their first BodyMost bytes
	What   string
}

// BodyMost is how much of a differing answer is kept.
const BodyMost = 64 << 10

// Tally is one side's part of a result.
type Tally struct {
	Used               // between the phase's edges
	Compared    int    // answers held against the first side's
	Differences int    // answers unlike the first side's
	Empty       int    // answers without data
	Failure     string // why it takes no part any more, "" if it does
}

// Result is what a phase gave.
type Result struct {
	Exchanges   []Exchange
	Sides       []Tally
	Differences int // exchanges in which a side differs
	First       *Difference
	Elapsed     time.Duration
	ClientCPU   int64  // ns of this process between the edges
	Stopped     string // why the phase ended before its time, "" if it did not
}

// orders are the sequences in which the sides are asked, one after the other and from the start again: each row of a
// Williams square (every side as often in every place, and before every other one), its mirror, its mirror, itself.
// For two sides that is the first side first, second, second, first.
func orders(sides int) (all [][]int) {
	rows := sides
	if sides%2 == 0 {
		rows = sides / 2 // the mirrors are the other half of the square
	}
	for shift := range rows {
		row, mirror := make([]int, sides), make([]int, sides)
		for i := range row {
			step := (i + 1) / 2 // 0 1 -1 2 -2 ...
			if i%2 == 0 {
				step = sides - step
			}
			row[i] = (step + shift) % sides
			mirror[sides-1-i] = row[i]
		}
		all = append(all, row, mirror, mirror, row)
	}
	return all
}

// Cycle is how many exchanges it takes until every side has been asked as often in every place.
func Cycle(sides, inFlight int) int { return len(orders(sides)) * burst(inFlight) }

// burst is how many operations go to a side before the next one is asked.
func burst(inFlight int) int {
	if inFlight > 1 {
		return 4 * inFlight
	}
	return 1
}

// side is a Side at work: its connections, and a slot for each operation of a burst.
type side struct {
	Side
	tally      *Tally
	workers    []*conn
	operations []Operation // of this burst
	bodies     [][]byte
	ns         []int64
	errs       []error
}

const (
	// Nothing of ours is collected within a phase, unless it has bodies so big that a collection is lost in their time.
	heapLimit  = 1 << 30
	bodiesMost = heapLimit / 4
)

// Run exchanges a job's operations. An error is none of the servers' doing: ctx has ended, or the source cannot be read.
// A side that does not answer, or answers an error, takes no further part; the phase stops when that leaves nothing to
// compare with.
func Run(ctx context.Context, job Job) (*Result, error) {
	result := &Result{Sides: make([]Tally, len(job.Sides))}
	burst := burst(job.InFlight)
	sides := make([]*side, len(job.Sides))
	for i := range sides {
		s := &side{Side: job.Sides[i], tally: &result.Sides[i], bodies: make([][]byte, burst), ns: make([]int64, burst), errs: make([]error, burst)}
		for range max(1, job.InFlight) {
			c, err := newConn(s.URL, job.Timeout)
			if err != nil {
				return nil, err
			}
			defer c.close()
			s.workers = append(s.workers, c)
			if err := c.connect(ctx); err != nil {
				s.tally.Failure = err.Error()
			}
		}
		sides[i] = s
	}
	runtime.GC()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(heapLimit))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before, err := edge(sides)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := job.run(ctx, sides, result, burst, begin); err != nil {
		return nil, err
	}
	result.Elapsed = time.Since(begin)
	after, err := edge(sides)
	if err != nil {
		return nil, err
	}
	for i := range sides {
		if after[i] != (Used{}) { // else it is gone
			result.Sides[i].Used = Used{after[i].CPU - before[i].CPU, after[i].Instructions - before[i].Instructions}
		}
	}
	result.ClientCPU = after[len(sides)].CPU - before[len(sides)].CPU
	return result, nil
}

// edge reads what all sides have used, and we. A side that is gone has failed.
func edge(sides []*side) ([]Used, error) {
	used := make([]Used, len(sides)+1)
	for i, s := range sides {
		if s.Side.Used == nil {
			continue
		}
		var err error
		if used[i], err = s.Side.Used(); err != nil && s.tally.Failure == "" {
			s.tally.Failure = err.Error()
		}
	}
	var own unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own); err != nil {
		return nil, fmt.Errorf("reading this process's CPU clock: %w", err)
	}
	used[len(sides)].CPU = own.Nano()
	return used, nil
}

func (job *Job) run(ctx context.Context, sides []*side, result *Result, burst int, begin time.Time) error {
	sequence := orders(len(sides))
	names := make([]string, len(sequence))
	for i, order := range sequence {
		for _, index := range order {
			names[i] += strconv.Itoa(index)
		}
	}
	times := make([]int64, 0, 1<<16) // cut into the exchanges' NS: one allocation for thousands
	told := begin
	for turn := 0; ; turn++ {
		if result.Stopped = stopped(sides); result.Stopped != "" {
			return ctx.Err()
		}
		operations, err := next(sides, min(burst, job.Until.room(len(result.Exchanges))))
		if err != nil {
			return err
		}
		if operations == 0 {
			if job.Until != (Until{}) {
				result.Stopped = fmt.Sprintf("there are no more than %d operations", len(result.Exchanges))
			}
			return nil
		}
		order := sequence[turn%len(sequence)]
		for _, index := range order {
			if s := sides[index]; s.tally.Failure == "" {
				s.answer(ctx, s.operations)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// All of this is off the clock.
		for i := range operations {
			if len(times)+len(sides) > cap(times) {
				times = make([]int64, 0, 1<<16)
			}
			from := len(times)
			for _, s := range sides {
				times = append(times, s.ns[i])
			}
			result.Exchanges = append(result.Exchanges, Exchange{Order: names[turn%len(sequence)], Bytes: len(sides[0].bodies[i]),
				Lines: sides[0].operations[i].Lines, NS: times[from:len(times):len(times)]})
			compare(sides, i, result)
		}
		for _, s := range sides {
			for i, err := range s.errs[:operations] {
				if err != nil && s.tally.Failure == "" {
					k := len(result.Exchanges) - operations + i
					s.tally.Failure = fmt.Sprintf("operation %d (%s): %v", k, firstLine([]byte(s.operations[i].Path)), err)
				}
			}
			if s.tally.Failure != "" {
				clear(s.ns) // it is asked no more, and the others go on
			}
		}
		now := time.Now()
		elapsed := now.Sub(begin)
		if turn == 0 && held(sides) > bodiesMost {
			debug.SetMemoryLimit(math.MaxInt64)
			debug.SetGCPercent(100)
		}
		if job.Progress != nil && now.Sub(told) > 500*time.Millisecond {
			told = now
			job.Progress(len(result.Exchanges), elapsed)
		}
		if job.MostDifferences > 0 && result.Differences >= job.MostDifferences {
			result.Stopped = fmt.Sprintf("%d of %d answers differ", result.Differences, len(result.Exchanges))
			return nil
		}
		if job.Until.over(len(result.Exchanges), elapsed) {
			return nil
		}
	}
}

// next has every side's next operations ready, at most so many, and returns how many every side has. A source that sides
// share is read once.
func next(sides []*side, most int) (int, error) {
	for i, s := range sides {
		if owner := slices.IndexFunc(sides, func(o *side) bool { return o.Source == s.Source }); owner < i {
			s.operations = sides[owner].operations
			continue
		}
		s.operations = s.operations[:0]
		for len(s.operations) < most {
			operation, err := s.Source.Next()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return 0, err
			}
			s.operations = append(s.operations, operation)
		}
		most = len(s.operations)
	}
	for _, s := range sides {
		s.operations = s.operations[:most]
	}
	return most, nil
}

// stopped says why no exchange is possible any more: the first side is gone, or all others are.
func stopped(sides []*side) string {
	left := 0
	for _, s := range sides[1:] {
		if s.tally.Failure == "" {
			left++
		}
	}
	if first := sides[0]; first.tally.Failure != "" {
		return first.Name + " is out: " + first.tally.Failure
	}
	if left == 0 && len(sides) > 1 {
		return sides[1].Name + " is out: " + sides[1].tally.Failure
	}
	return ""
}

func (s *side) success(status int) bool {
	return status == http.StatusOK || s.Answers == "" && status/100 == 2
}

// answer sends a burst of operations to one side by all of its workers, and returns when all are answered.
func (s *side) answer(ctx context.Context, operations []Operation) {
	one := func(c *conn, i int) {
		c.body = s.bodies[i]
		s.errs[i] = c.do(ctx, &operations[i], s.success)
		s.bodies[i], s.ns[i] = c.body, c.ns
		if s.errs[i] != nil {
			s.bodies[i], s.ns[i] = s.bodies[i][:0], 0
		}
	}
	if len(s.workers) == 1 {
		for i := range operations {
			one(s.workers[0], i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for _, c := range s.workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(operations)); i = next.Add(1) - 1 {
				one(c, int(i))
			}
		})
	}
	all.Wait()
}

// compare holds every side's answer to operation i against the first side's.
func compare(sides []*side, i int, result *Result) {
	first := sides[0]
	differs := false
	for n, s := range sides {
		if s.Answers == "" || s.tally.Failure != "" || s.errs[i] != nil {
			continue
		}
		empty, err := formats[s.Answers].empty(s.bodies[i])
		if err != nil {
			s.errs[i] = err
			continue
		}
		if empty {
			s.tally.Empty++
		}
		if n == 0 || first.errs[i] != nil {
			continue
		}
		s.tally.Compared++
		what := differ(first, s, i)
		if what == "" {
			continue
		}
		differs = true
		s.tally.Differences++
		if result.First == nil {
			query, other := first.operations[i].String(), s.operations[i].String()
			if other != query {
				query += "\n" + other
			}
			result.First = &Difference{K: len(result.Exchanges) - 1, Query: query,
				Sides: [2]string{first.Name, s.Name}, Bodies: [2]string{cut(first.bodies[i]), cut(s.bodies[i])}, What: what}
		}
	}
	if differs {
		result.Differences++
	}
}

func held(sides []*side) (bytes int) {
	for _, s := range sides {
		for _, body := range s.bodies {
			bytes += cap(body)
		}
	}
	return bytes
}

func cut(body []byte) string { return string(body[:min(len(body), BodyMost)]) }
