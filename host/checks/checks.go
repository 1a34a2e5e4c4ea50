// Package checks has what is checked of a variant in a block, and the fault that a failed check is.
package checks

import (
	"fmt"

	"tsduel/host/record"
)

// Fault says why a variant has no result in this block. Any other error ends the run of the block.
type Fault struct {
	Message string
	Unready bool // it did not start
}

func (f *Fault) Error() string { return f.Message }

// Faultf makes a fault.
func Faultf(format string, args ...any) error { return &Fault{Message: fmt.Sprintf(format, args...)} }

// List is the checks of a variant, in the phase that it is in: its faults are blamed on that phase, too.
type List struct {
	Of                     string
	In                     *record.Block
	Part, Phase, QueryType string
	Mask                   func(string) string // hides secrets in a message; nil if there are none
}

// Enter moves the variant to a phase that all variants begin together.
func (c *List) Enter(part, phase, queryType string) {
	c.Part, c.Phase, c.QueryType = part, phase, queryType
}

// Check records a check. A check that fails is a fault.
func (c *List) Check(one record.Check) error {
	one.Variant = c.Of
	if one.OK {
		one.Message = ""
	} else if c.Mask != nil {
		one.Message = c.Mask(one.Message)
	}
	c.In.Checks = append(c.In.Checks, one)
	if !one.OK {
		return Faultf("%s", one.Message)
	}
	return nil
}

// Equal checks a number; the message is for one that is not expected.
func (c *List) Equal(check string, expected, actual int64, format string, args ...any) error {
	return c.Check(record.Check{Check: check, Phase: c.Phase, QueryType: c.QueryType, Expected: float64(expected),
		Actual: float64(actual), OK: expected == actual, Message: fmt.Sprintf(format, args...)})
}

// EqualStart voids the block if the variant starts with answers that an earlier process kept. kept is -1 if it is
// not known, which is not equal.
func (c *List) EqualStart(kept int64, wrong string) bool {
	one := record.Check{Check: "equal_start", Phase: "start", Actual: float64(kept), OK: kept == 0,
		Message: "unequal starts: " + wrong}
	if err := c.Check(one); err != nil && c.In.Void == "" {
		c.In.Void = err.Error()
	}
	return one.OK
}
