package exchange

import (
	"errors"
	"fmt"
	"time"
)

// NotHeld is why a side did not stand still while another one was to be asked: nothing may be compared then.
type NotHeld struct{ error }

func (e NotHeld) Unwrap() error { return e.error }

// turnKeeper knows who may run in a phase: all sides, or one.
type turnKeeper struct {
	sides   []*side
	running int // index of the side that runs alone, or everybody
	begun   bool
	count   int // of changes
	spent   time.Duration
}

const everybody = -1

// give lets only one side run, before it is asked. Sides that have no Turn run all the time.
func (t *turnKeeper) give(index int) error {
	if t.running == index {
		return nil
	}
	begin := time.Now()
	t.begun = true
	for i, s := range t.sides {
		if i != index && (t.running == i || t.running == everybody) && s.Turn != nil {
			// One that has just failed is out: it may be about to die, and the others go on.
			if err := s.Turn.Hold(); err != nil && !s.failed() {
				return NotHeld{fmt.Errorf("%s did not stand still while %s was to be asked: %w", s.Name, t.sides[index].Name, err)}
			}
		}
	}
	if s := t.sides[index]; t.running != everybody && s.Turn != nil {
		if err := s.Turn.Release(); err != nil {
			return NotHeld{fmt.Errorf("%s did not go on for its turn: %w", s.Name, err)}
		}
	}
	if t.sides[index].Turn != nil {
		t.count, t.spent = t.count+1, t.spent+time.Since(begin)
	}
	t.running = index
	return nil
}

// end lets all sides run.
func (t *turnKeeper) end() (err error) {
	if !t.begun {
		return nil
	}
	t.begun, t.running = false, everybody
	for _, s := range t.sides {
		if s.Turn != nil {
			err = errors.Join(err, s.Turn.Release())
		}
	}
	if err != nil {
		return NotHeld{fmt.Errorf("at the end of a phase: %w", err)}
	}
	return nil
}
