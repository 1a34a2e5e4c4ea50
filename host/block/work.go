package block

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"tsduel/host/record"
)

// shares is into how many parts the query types are dealt: one part is counted in each block.
const shares = 3

// counts says that the work of a query type is counted in this sitting: its counters are read at its own edges. That
// waits, since some databases repeat an answer for a second.
func counts(s *sitting, queryType string) bool {
	if s.index > 0 || s.when != "" || s.in.profiler != nil || s.in.Calibration == nil {
		return false
	}
	at := slices.IndexFunc(s.in.Plan.Queries.Types, func(t record.QueryType) bool { return t.Name == queryType })
	block := cmp.Or(s.in.Row.Replaces, s.in.Row.Block)
	return s.in.Plan.Duel.Work == "all" || s.in.Plan.Duel.Work == "third" && (at+block)%shares == 0
}

// countedLast are the query types, those last whose work is counted: one reading then is the edge of two of them, and
// what a fresh process first fills its pools with is in none. They have the plan's order in every block, since what
// was asked before fills caches, and so changes what is counted.
func countedLast(s *sitting) (types []string) {
	var counted []string
	for _, t := range s.in.Plan.Queries.Types {
		if slices.Contains(s.types, t.Name) && counts(s, t.Name) {
			counted = append(counted, t.Name)
		}
	}
	for _, name := range s.types {
		if !slices.Contains(counted, name) {
			types = append(types, name)
		}
	}
	return append(types, counted...)
}

// findReadingCost reads the counters in the warm-up block with nothing between: what a server does for its reader, and
// by itself in that second, is taken off from what is counted.
func findReadingCost(ctx context.Context, s *sitting) error {
	costs := map[string]map[string][]float64{}
	for range shares {
		before := maps.Clone(s.bodies)
		if err := s.readCounters(ctx); err != nil {
			return err
		}
		for _, v := range s.in.alive() {
			if costs[v.Name] == nil {
				costs[v.Name] = map[string][]float64{}
			}
			for name, grew := range grown(v.Module, before[v.Name], s.bodies[v.Name]) {
				costs[v.Name][name] = append(costs[v.Name][name], grew)
			}
		}
	}
	s.record.Reading = map[string]map[string]float64{}
	for variant, counters := range costs {
		s.record.Reading[variant] = map[string]float64{}
		for name, all := range counters {
			s.record.Reading[variant][name] = slices.Sorted(slices.Values(all))[len(all)/2]
		}
	}
	return nil
}

// workOf is the growth of a variant's counters between two readings, without what so many readings cost.
func workOf(v *variant, s *sitting, before []byte, readings int) map[string]float64 {
	all := grown(v.Module, before, s.bodies[v.Name])
	if s.in.Calibration != nil {
		for name, cost := range s.in.Calibration.Reading[v.Name] {
			grew, has := all[name]
			if cost *= float64(readings); has {
				all[name] = max(0, grew-cost)
			}
			if name == "objects" && grew > 0 {
				all[record.TakenOff] = min(1, cost/grew)
			}
		}
	}
	return all
}
