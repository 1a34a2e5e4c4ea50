package values

import (
	"maps"
	"math"
	"slices"
)

// The estimators of docs/statistics.md stand here alone: typical is the 10 % trimmed mean of the log ratios of the
// exchanges, total the log of the ratio of sums, CPU the log of the ratio of CPU an operation. The value of a block is
// the mean over its sittings.

// estimate is a log ratio and its standard error within a sitting, NaN if that is not known.
type estimate struct{ ratio, se float64 }

// trimmed is the mean without the lowest and highest tenth. Its error is that of Tukey and McLaughlin, Sankhya A 25
// (1963): the winsorized standard deviation over (1 - 2 x 0.1) sqrt(n); NaN of fewer than three values.
func trimmed(values []float64) estimate {
	ordered := slices.Sorted(slices.Values(values))
	n, cut := len(ordered), len(ordered)/10
	value := mean(ordered[cut : n-cut])
	for i := range cut {
		ordered[i], ordered[n-1-i] = ordered[cut], ordered[n-1-cut]
	}
	return estimate{value, known(deviation(ordered, 1)/(0.8*math.Sqrt(float64(n))), n >= 3)}
}

// typical is the trimmed mean of the log ratios of pairs.
func typical(baseline, candidate []float64) estimate {
	logs := make([]float64, len(baseline))
	for i := range baseline {
		logs[i] = math.Log(candidate[i] / baseline[i])
	}
	return trimmed(logs)
}

// total is the log of the ratio of sums, with its standard error by the delta method on the pairs.
func total(baseline, candidate []float64) estimate {
	b, c, moved := mean(baseline), mean(candidate), make([]float64, len(baseline))
	for i := range baseline {
		moved[i] = candidate[i]/c - baseline[i]/b
	}
	n := float64(len(moved))
	return estimate{math.Log(c / b), known(deviation(moved, 1)/math.Sqrt(n), n >= 3)}
}

func mean(values []float64) float64 { return sum(values) / float64(len(values)) }

// sum adds in halves, by which rounding errors grow with the logarithm of the number.
func sum(values []float64) (all float64) {
	if n := len(values); n > 128 {
		return sum(values[:n/2]) + sum(values[n/2:])
	}
	for _, value := range values {
		all += value
	}
	return all
}

// deviation is the standard deviation; free: 1 of a sample, 0 of all there is.
func deviation(values []float64, free int) float64 {
	middle, squares := mean(values), make([]float64, len(values))
	for i, value := range values {
		squares[i] = (value - middle) * (value - middle)
	}
	return math.Sqrt(sum(squares) / float64(len(values)-free))
}

// quantile interpolates between the two nearest of the ordered values.
func quantile(ordered []float64, share float64) float64 {
	at := share * float64(len(ordered)-1)
	low := int(at)
	below, above, part := ordered[low], ordered[min(low+1, len(ordered)-1)], at-float64(low)
	if part >= 0.5 {
		return above - (above-below)*(1-part)
	}
	return below + (above-below)*part
}

// clock is by how much a clock or counter of each variant moved in a sitting, and the number of operations.
type clock struct {
	sitting    int
	operations int64
	moved      map[string]float64
}

// add adds up by variant, for the variants with a figure in every part.
func (c *clock) add(part clock) {
	c.operations += part.operations
	if c.moved == nil {
		c.moved = maps.Clone(part.moved)
		return
	}
	for name := range c.moved {
		if value, has := part.moved[name]; has {
			c.moved[name] += value
		} else {
			delete(c.moved, name)
		}
	}
}

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

// together is the mean ratio of the query types in each sitting, because their deviations are not independent; of a
// mix, and where all were counted together, the ratio of these.
func together(subjects map[string]map[int]estimate) map[int]estimate {
	for _, whole := range []string{geomean, mix, every} {
		if own, has := subjects[whole]; has {
			return own
		}
	}
	ratios, means := map[int][]float64{}, map[int]estimate{}
	for _, subject := range slices.Sorted(maps.Keys(subjects)) {
		for sitting, of := range subjects[subject] {
			if ratios[sitting] = append(ratios[sitting], of.ratio); len(ratios[sitting]) == len(subjects) {
				means[sitting] = estimate{mean(ratios[sitting]), math.NaN()}
			}
		}
	}
	return means
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
