// Package exchange sends each operation to several resident servers, one after the other, from one client:
// the timed half of a duel. It compares every answer, and knows nothing of blocks, phases and adapters.
package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// Job is one phase: exchanges of one kind of operation, until Until ends it or a source ends.
type Job struct {
	Sides           []Side
	Ask, Read       []int // indices of Sides: who is asked first, and whose clock is read first; nil: as in Sides
	Until           Until
	InFlight        int           // operations at once to one side; if more than one, in bursts of 4 x InFlight
	TurnLasts       time.Duration // of a side: operations follow each other, at most mostInTurn; 0: one, or a burst
	Timeout         time.Duration // of one operation
	MostDifferences int           // the phase stops after this many
	Progress        func(done int, elapsed time.Duration)
}

// Until ends a phase: with a Count, after that many exchanges. Without, after Lasts and at least Least
// exchanges; if Least would take longer than Longest, after Longest and at least Fewest. The zero Until ends
// with the source.
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

// room returns how many more exchanges may follow.
func (u Until) room(done int) int {
	if u.Count > 0 {
		return u.Count - done
	}
	return math.MaxInt
}

// Exchange is one operation, sent to every side in its own query language.
type Exchange struct {
	Order string  // the sides' indices in the order in which they were asked
	First bool    // of several in a turn: a side may have stood still just before it
	Bytes int     // of the first side's answer
	Lines int     // of a batch of data
	NS    []int64 // service time of each side, 0 where it did not answer
}

// bodyMost is how many bytes of a body are kept of two answers that differ.
const bodyMost = 64 << 10

type Result struct {
	Exchanges   []Exchange
	Sides       []Tally
	Differences int // exchanges in which a side differs
	First       *record.Difference
	Series      int // of the first side's first answer with data
	Points      int
	Ended       time.Time // of the last operation
	Elapsed     time.Duration
	ClientCPU   int64         // ns of this process in the phase
	Turns       int           // how often another side ran than before
	TurnTime    time.Duration // of them all, off the clock of every operation
	Stopped     string        // why the phase ended early, "" if it did not
}

const (
	// No garbage collection within a phase, unless answers are so large that a collection is short beside them.
	heapLimit  = 1 << 30
	bodiesMost = heapLimit / 4
)

// Run exchanges a job's operations; a side with a Turn runs only while it is asked. A side that does not answer, or
// answers an error, is out; the phase stops when nothing is left to compare. An error of Run is not a server's fault:
// ctx has ended, a source cannot be read, or a side could not be held (NotHeld).
func Run(ctx context.Context, job Job) (*Result, error) {
	result := &Result{Sides: make([]Tally, len(job.Sides))}
	burst := Burst(job.InFlight)
	if job.TurnLasts > 0 {
		burst = mostInTurn
	}
	sides := make([]*side, len(job.Sides))
	read := inOrder(job.Read, len(sides))
	for _, i := range read {
		s := &side{Side: job.Sides[i], tally: &result.Sides[i],
			bodies: make([][]byte, burst), ns: make([]int64, burst), errs: make([]error, burst), room: NewRoom(burst)}
		urls := strings.Split(s.URL, ",")
		s.inFlight = max(1, job.InFlight)
		for i := range s.inFlight * len(urls) {
			c, err := Dial(ctx, urls[i%len(urls)], job.Timeout, s.room)
			if err != nil {
				return nil, err
			}
			defer c.Close()
			s.workers = append(s.workers, c)
		}
		sides[i] = s
	}
	runtime.GC()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(heapLimit))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before, err := readUsed(sides, read)
	if err != nil {
		return nil, err
	}
	t := &turnKeeper{sides: sides, running: everybody}
	defer t.end() // also after a panic
	begin := time.Now()
	if err := cmp.Or(job.run(ctx, sides, t, result, burst, begin), t.end()); err != nil {
		return nil, err
	}
	result.Ended, result.Turns, result.TurnTime = time.Now(), t.count, t.spent
	result.Elapsed = result.Ended.Sub(begin)
	after, err := readUsed(sides, read)
	if err != nil {
		return nil, err
	}
	for _, s := range sides {
		if err := Quiet(ctx, s.workers); err != nil && s.tally.Failure == "" {
			s.tally.Failure = err.Error()
		}
	}
	result.Stopped = cmp.Or(result.Stopped, stopped(sides))
	for i := range sides {
		if after[i] != (Used{}) { // else its processes have ended
			result.Sides[i].Used = Used{after[i].CPU - before[i].CPU, after[i].Instructions - before[i].Instructions}
		}
	}
	result.ClientCPU = after[len(sides)].CPU - before[len(sides)].CPU
	return result, nil
}

// readUsed reads what the sides have used, in this order, then this process. An unreadable side is out.
func readUsed(sides []*side, order []int) ([]Used, error) {
	used := make([]Used, len(sides)+1)
	for _, i := range order {
		s := sides[i]
		if s.Side.Used == nil {
			continue
		}
		var err error
		if used[i], err = s.Side.Used(); err != nil && s.tally.Failure == "" {
			s.tally.Failure = err.Error()
		}
	}
	own, err := proc.CPU(os.Getpid())
	used[len(sides)].CPU = int64(own)
	return used, err
}

func (job *Job) run(ctx context.Context, sides []*side, t *turnKeeper, result *Result, burst int,
	begin time.Time) error {
	sequence, told := Orders(inOrder(job.Ask, len(sides))), begin
	for turn := 0; ; turn++ {
		if job.TurnLasts > 0 {
			burst = inTurn(job.TurnLasts, result.Exchanges, len(sequence))
		}
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
		order := ""
		for _, index := range sequence[turn%len(sequence)] {
			order += strconv.Itoa(index)
			if s := sides[index]; s.tally.Failure == "" {
				if err := t.give(index); err != nil {
					return err
				}
				s.ask(ctx, s.operations)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The rest is off the clock.
		for i := range operations {
			e := Exchange{Order: order, First: job.TurnLasts > 0 && i == 0 && operations > 1,
				Bytes: len(sides[0].bodies[i]), Lines: sides[0].operations[i].Lines, NS: make([]int64, len(sides))}
			for n, s := range sides {
				e.NS[n] = s.ns[i]
			}
			result.Exchanges = append(result.Exchanges, e)
			compare(sides, i, result)
			if result.Series == 0 && sides[0].errs[i] == nil {
				result.Series, result.Points = sides[0].counted(i)
			}
		}
		size := 0
		for _, s := range sides {
			for i, body := range s.bodies {
				if size += cap(body); int64(cap(body)) > s.room.keep {
					s.bodies[i] = nil
				}
			}
			for i, err := range s.errs[:operations] {
				if err != nil && s.tally.Failure == "" {
					k := len(result.Exchanges) - operations + i
					s.tally.Failure = fmt.Sprintf("operation %d (%s): %v", k, firstLine([]byte(s.operations[i].Path)), err)
				}
			}
			if s.tally.Failure != "" {
				clear(s.ns) // it is not asked again, and the others go on
			}
		}
		now, done := time.Now(), len(result.Exchanges)
		if turn == 0 && size > bodiesMost {
			debug.SetMemoryLimit(math.MaxInt64)
			debug.SetGCPercent(100)
		}
		if job.Progress != nil && now.Sub(told) > 500*time.Millisecond {
			told = now
			job.Progress(done, now.Sub(begin))
		}
		if job.MostDifferences > 0 && result.Differences >= job.MostDifferences {
			result.Stopped = fmt.Sprintf("%d of %d answers differ", result.Differences, done)
			return nil
		}
		if job.Until.over(done, now.Sub(begin)) {
			return nil
		}
	}
}

// mostInTurn is how many operations follow each other at most where a turn has a length.
const mostInTurn = 8

// inTurn returns how many operations a side gets in a turn: one in the first round, in which each side was in each
// place; then as many of the fastest of that round as fill the turn.
func inTurn(lasts time.Duration, done []Exchange, round int) int {
	if len(done) < round {
		return 1
	}
	fastest := int64(math.MaxInt64)
	for _, e := range done[:round] {
		for _, ns := range e.NS {
			if ns > 0 { // else this side did not answer
				fastest = min(fastest, ns)
			}
		}
	}
	return int(min(mostInTurn, 1+(int64(lasts)-1)/fastest))
}

// next reads the next operations of all sides, at most so many. Sides with the same source get the same.
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

// stopped says why no exchange is possible any more: the first side is out, or all others are.
func stopped(sides []*side) string {
	for _, group := range [][]*side{sides[:1], sides[1:]} {
		if len(group) > 0 && !slices.ContainsFunc(group, func(s *side) bool { return s.tally.Failure == "" }) {
			return group[0].Name + " is out: " + group[0].tally.Failure
		}
	}
	return ""
}

// compare compares every side's answer to operation i with the first side's.
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
			result.First = &record.Difference{K: len(result.Exchanges) - 1, Query: query, Variants: []string{first.Name, s.Name},
				Bodies: []string{cut(first.bodies[i]), cut(s.bodies[i])}, What: what}
		}
	}
	if differs {
		result.Differences++
	}
}

func cut(body []byte) string { return string(body[:min(len(body), bodyMost)]) }
