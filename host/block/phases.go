package block

import (
	"fmt"
	"slices"
	"time"

	"tsduel/host/noise"
	"tsduel/host/record"
)

// fault says why a variant has no result in this block. Any other error ends the run of the block.
type fault struct {
	message string
	unready bool // it did not start
}

func (f *fault) Error() string { return f.message }

func faultf(format string, args ...any) error { return &fault{message: fmt.Sprintf(format, args...)} }

// note emits a remark; variant and queryType may be empty.
func (f *frame) note(variant, queryType, message string) {
	f.Events.Note(f.block.Block, variant, queryType, message)
}

// byRole keeps a figure by role, if a variant of the run has several components.
func (f *frame) byRole(in *record.ByRole, key string, by map[string]int64) {
	if !slices.ContainsFunc(f.Plan.Variants, func(v record.Variant) bool { return len(v.Components) > 1 }) {
		return
	}
	if *in == nil {
		*in = record.ByRole{}
	}
	(*in)[key] = by
}

type span struct {
	record.Phase
	*frame
	edge    noise.Edge
	pids    []int // of the servers
	listens bool
}

// begin begins a phase; variant is empty if the phase is of all variants.
func (f *frame) begin(variant, part, phase, queryType string) *span {
	s := &span{frame: f}
	s.Phase = record.Phase{Variant: variant, Part: part, Phase: phase, QueryType: queryType, Attempts: 1}
	f.Events.PhaseStart(f.block.Block, s.Phase)
	s.Begin = record.Epoch(time.Now())
	return s
}

// listen reads the machine's counters, and those of servers, just before the timed work; over reads them after it.
func (s *span) listen(servers ...*server) {
	for _, one := range servers {
		if !one.deployed() {
			s.pids = append(s.pids, one.pid)
		}
	}
	s.edge, s.listens = noise.Take(s.pids...), true
	s.Begin = record.Epoch(time.Now())
}

// over marks the end of the timed work.
func (s *span) over() {
	s.End = record.Epoch(time.Now())
	if s.listens {
		s.Noise = noise.Between(s.edge, noise.Take(s.pids...))
	}
}

func (s *span) close(exit int, count int64) {
	if s.End == 0 {
		s.over()
	}
	s.Exit, s.Count = exit, count
	s.block.Phases = append(s.block.Phases, s.Phase)
	s.Events.PhaseEnd(s.block.Block, s.Phase)
}

// ended closes a phase that has gone well; a phase that failed is not recorded.
func (s *span) ended(err error) error {
	if err == nil {
		s.close(0, 0)
	}
	return err
}

// checks are those of a variant, in the phase that it is in: its faults are blamed on that phase, too.
type checks struct {
	of                     string
	in                     *record.Block
	part, phase, queryType string
}

// enter moves the variant to a phase that all variants begin together.
func (c *checks) enter(part, phase, queryType string) {
	c.part, c.phase, c.queryType = part, phase, queryType
}

// check records a check. A check that fails is a fault.
func (c *checks) check(one record.Check) error {
	one.Variant = c.of
	if one.OK {
		one.Message = ""
	}
	c.in.Checks = append(c.in.Checks, one)
	if !one.OK {
		return faultf("%s", one.Message)
	}
	return nil
}

// equal checks a number; the message is for one that is not expected.
func (c *checks) equal(check string, expected, actual int64, format string, args ...any) error {
	return c.check(record.Check{Check: check, Phase: c.phase, QueryType: c.queryType, Expected: float64(expected),
		Actual: float64(actual), OK: expected == actual, Message: fmt.Sprintf(format, args...)})
}

// equalStart voids the block if the variant starts with answers that an earlier process kept. kept is -1 if it is
// not known, which is not equal.
func (c *checks) equalStart(kept int64, wrong string) bool {
	one := record.Check{Check: "equal_start", Phase: "start", Actual: float64(kept), OK: kept == 0,
		Message: "unequal starts: " + wrong}
	if err := c.check(one); err != nil && c.in.Void == "" {
		c.in.Void = err.Error()
	}
	return one.OK
}
