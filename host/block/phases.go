package block

import (
	"time"

	"tsduel/host/noise"
	"tsduel/host/record"
	"tsduel/host/servers"
)

type span struct {
	record.Phase
	in      *frame
	edge    noise.Edge
	pids    []int // of the servers
	listens bool
}

// begin begins a phase; variant is empty if the phase is of all variants.
func (f *frame) begin(variant, part, phase, queryType string) *span {
	s := &span{in: f}
	s.Phase = record.Phase{Variant: variant, Part: part, Phase: phase, QueryType: queryType, Attempts: 1}
	f.Events.PhaseStart(f.block.Block, s.Phase)
	s.Begin = record.Epoch(time.Now())
	return s
}

// listen reads the machine's counters, and those of servers, just before the timed work; over reads them after it.
func (s *span) listen(servers ...*servers.Server) {
	for _, one := range servers {
		if !one.Deployed() {
			s.pids = append(s.pids, one.Pid)
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
	s.in.block.Phases = append(s.in.block.Phases, s.Phase)
	s.in.Events.PhaseEnd(s.in.block.Block, s.Phase)
}

// ended closes a phase that has gone well; a phase that failed is not recorded.
func (s *span) ended(err error) error {
	if err == nil {
		s.close(0, 0)
	}
	return err
}

func (v *variant) begin(part, phase, queryType string) *span {
	s := v.in.begin(v.Name, part, phase, queryType)
	v.Enter(part, phase, queryType)
	return s
}
