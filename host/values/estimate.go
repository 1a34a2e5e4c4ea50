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

func known(value float64, is bool) float64 {
	if !is {
		return math.NaN()
	}
	return value
}

const (
	mix     = "mix"     // the query type whose requests are drawn from all of the user's queries by weight
	every   = "all"     // in place of a query type: all exchanges together
	geomean = "geomean" // and the geometric mean over types
)
