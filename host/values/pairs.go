package values

import (
	"maps"
	"math"
	"slices"
)

// perOperation adds figures of a clock over all operations of a sitting: one ratio, whose error only the blocks show.
// Several clocks of one sitting are added up.
func (b *block) perOperation(metric, subject string, clocks []clock, scale float64) {
	sittings, whole := map[int]*clock{}, clock{}
	for _, c := range clocks {
		if sittings[c.sitting] == nil {
			sittings[c.sitting] = &clock{}
		}
		sittings[c.sitting].add(c)
	}
	maps.DeleteFunc(sittings, func(_ int, c *clock) bool { return c.operations == 0 })
	for _, sitting := range slices.Sorted(maps.Keys(sittings)) {
		whole.add(*sittings[sitting])
	}
	b.each(metric, subject, whole.moved, float64(whole.operations)*scale)
	for _, name := range b.candidates() {
		ratios := map[int]estimate{}
		for sitting, c := range sittings {
			if first, own := c.moved[b.baseline()], c.moved[name]; first > 0 && own > 0 {
				ratios[sitting] = estimate{math.Log(own / first), math.NaN()}
			}
		}
		if len(ratios) == len(sittings) {
			b.pair(name, metric, subject, ratios, whole.operations)
		}
	}
}

// pair adds the mean over sittings, if there are any. Its error is that of the exchanges alone. The second effect is
// half of the difference between sittings that start the candidate second and those that start it first: the order of
// starts is the block's in the first sitting, its reverse in the next two, and so on: B C C B.
func (b *block) pair(candidate, metric, subject string, estimates map[int]estimate, n int64) {
	key := [2]string{candidate, metric}
	if len(estimates) == 0 {
		return
	}
	if b.bySitting[key] == nil {
		b.bySitting[key] = map[string]map[int]estimate{}
	}
	b.bySitting[key][subject] = estimates
	at, of := slices.Index(b.Start, candidate), slices.Index(b.Start, b.baseline())
	var ratios, second, first []float64
	squares := 0.0
	for _, sitting := range slices.Sorted(maps.Keys(estimates)) {
		e := estimates[sitting]
		ratios, squares = append(ratios, e.ratio), squares+e.se*e.se
		if turned := sitting%4 == 1 || sitting%4 == 2; (at > of) != turned {
			second = append(second, e.ratio)
		} else {
			first = append(first, e.ratio)
		}
	}
	b.row("pairs", candidate, subject, metric, mean(ratios), math.Sqrt(squares)/float64(len(ratios)), n, len(ratios),
		known(deviation(ratios, 1), len(ratios) > 1), known((mean(second)-mean(first))/2, at >= 0 && of >= 0))
}
