package block

import (
	"fmt"
	"slices"
	"time"

	"tsduel/host/machine"
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
	edges map[string]machine.Span
}

// begin begins a phase; variant is empty if the phase is of all variants.
func (f *frame) begin(variant, part, phase, queryType string) *span {
	s := &span{frame: f}
	s.Phase = record.Phase{Variant: variant, Part: part, Phase: phase, QueryType: queryType, Attempts: 1}
	f.Events.PhaseStart(f.block.Block, s.Phase)
	s.Begin = record.Epoch(time.Now())
	return s
}

// listen reads the hosts' counters just before the timed work; over reads them after it.
func (s *span) listen(servers ...*server) {
	s.edges = s.look(servers...)
	s.Begin = record.Epoch(time.Now())
}

// over marks the end of the timed work.
func (s *span) over() {
	s.End = record.Epoch(time.Now())
	s.Noise, s.Hosts = s.since(s.edges)
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

func (v *variant) begin(part, phase, queryType string) *span {
	s := v.frame.begin(v.Name, part, phase, queryType)
	v.enter(part, phase, queryType)
	return s
}

// enter moves this variant to a phase that all variants begin together.
func (v *variant) enter(part, phase, queryType string) {
	v.part, v.phase, v.queryType = part, phase, queryType
}

// check records a check. A check that fails is a fault.
func (v *variant) check(c record.Check) error {
	c.Variant = v.Name
	if c.OK {
		c.Message = ""
	}
	v.block.Checks = append(v.block.Checks, c)
	if !c.OK {
		return faultf("%s", c.Message)
	}
	return nil
}

// equal checks a number; the message is for one that is not expected.
func (v *variant) equal(check string, expected, actual int64, format string, args ...any) error {
	return v.check(record.Check{Check: check, Phase: v.phase, QueryType: v.queryType, Expected: float64(expected),
		Actual: float64(actual), OK: expected == actual, Message: fmt.Sprintf(format, args...)})
}

// equalStart voids the block if a variant starts with answers that an earlier process kept.
func (v *variant) equalStart(kept int64, what string) bool {
	return v.checkStart(kept, fmt.Sprintf("%s began with %d %s, which an earlier process left", v.Name, kept, what))
}

// checkStart is equalStart with the message; kept is -1 if it is not known, which is not equal.
func (v *variant) checkStart(kept int64, wrong string) bool {
	c := record.Check{Check: "equal_start", Phase: "start", Actual: float64(kept), OK: kept == 0,
		Message: "unequal starts: " + wrong}
	if err := v.check(c); err != nil && v.block.Void == "" {
		v.block.Void = err.Error()
	}
	return c.OK
}
