package exchange

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

// chooses finds a query that picks some of the series at each time. Of those that tie for the last place the server
// takes any, and not always the same.
var chooses = regexp.MustCompile(`(top|bottom)k\b`)

func (o *Operation) chooses() bool {
	return chooses.MatchString(o.Path) || chooses.Match(o.Body)
}

// untie drops the points that only a tie sets apart: at one time each answer has as many points of series that the
// other one lacks then, and their values are the same.
func untie(both [2]*answer) {
	lone := [2]map[float64][]tied{lonePoints(both[0], both[1]), lonePoints(both[1], both[0])}
	for seconds, mine := range lone[0] {
		others := lone[1][seconds]
		if slices.EqualFunc(mine, others, func(a, b tied) bool { return sameValue(a.value, b.value) }) {
			for n, points := range [2][]tied{mine, others} {
				for _, of := range points {
					both[n].drop(of.key, seconds)
				}
			}
		}
	}
}

// tied is a point of a series that the other answer does not have at that time.
type tied struct{ key, value string }

// lonePoints returns by time the points of a that b lacks, in the order of their values.
func lonePoints(a, b *answer) map[float64][]tied {
	found := map[float64][]tied{}
	for key, points := range a.series {
		for _, p := range points {
			if !slices.ContainsFunc(b.series[key], func(other point) bool { return other.seconds == p.seconds }) {
				found[p.seconds] = append(found[p.seconds], tied{key, p.value})
			}
		}
	}
	for _, points := range found {
		slices.SortFunc(points, func(x, y tied) int { return cmp.Compare(toFloat(x.value), toFloat(y.value)) })
	}
	return found
}

func (a *answer) drop(key string, seconds float64) {
	a.series[key] = slices.DeleteFunc(a.series[key], func(p point) bool { return p.seconds == seconds })
	if len(a.series[key]) == 0 {
		delete(a.series, key)
	}
}

func toFloat(value string) float64 {
	x, _ := strconv.ParseFloat(value, 64) // 0 for what is no number: it has its place then, too
	return x
}
