package block

import (
	"errors"

	"tsduel/host/proc"
)

// takeTurns decides, once all have been started, whether the variants of a sitting take turns in running. Each is held
// once, since a place may refuse that.
func takeTurns(s *sitting) error {
	s.turns = map[string]processes{}
	if s.in.Plan.Deployed() {
		s.record.Unheld = "they run already, and nothing of them is held"
		return nil
	}
	if !s.in.Plan.Duel.Hold {
		s.record.Unheld = "duel.hold is false"
		return nil
	}
	for _, v := range s.in.alive() {
		var own processes
		for _, server := range v.Running {
			own = append(own, server.Process)
		}
		if err := errors.Join(own.Hold(), own.Release()); err != nil {
			if dead := v.Died(); dead != nil {
				return s.in.blame(v, dead)
			}
			if _, late := errors.AsType[proc.Late](err); late {
				s.in.block.Void = v.Name + ": " + err.Error()
				return nil
			}
			return runTogether(s, err.Error())
		}
		s.turns[v.Name], s.record.HeldBy = own, own[0].HeldBy()
	}
	return nil
}

// runTogether gives turns up, and says why: then the background of one variant delays the other.
func runTogether(s *sitting, why string) error {
	clear(s.turns)
	s.record.HeldBy = ""
	if s.record.Unheld != why {
		s.record.Unheld = why
		s.in.note("", "", "the variants run while others are asked: "+why)
	}
	return nil
}
