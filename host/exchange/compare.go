package exchange

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tsduel/host/bound"
	"tsduel/host/scrape"
)

// formats reads the answers of each API. parse runs off the clock; it needs the operation for an API whose
// answers do not name their fields. Answers of one database are parsed only if their bytes differ.
var formats = map[string]struct {
	empty func(body []byte) (bool, error)
	parse func(body []byte, operation *Operation) (*answer, error)
}{
	"prometheus": {emptyPrometheus, parsePrometheus},
	"influxql":   {emptyInfluxQL, parseInfluxQL},
}

// Empty returns the function that says whether an answer of a format has no data.
func Empty(answers string) func(body []byte) (bool, error) { return formats[answers].empty }

// counted returns the series and points of an answer; 0 of one that cannot be read, and of a batch's.
func (s *side) counted(i int) (series, points int) {
	if s.Answers == "" || len(s.bodies[i]) > bound.Parsed {
		return 0, 0
	}
	whole, err := formats[s.Answers].parse(s.bodies[i], &s.operations[i])
	if err != nil {
		return 0, 0
	}
	for _, own := range whole.series {
		points += len(own)
	}
	return len(whole.series), points
}

// differ compares the answers of two sides to operation i: it says in a phrase how they differ, or "". The phrase has
// words of servers, and is short and printable whatever they are.
func differ(a, b *side, i int) string { return scrape.OneLine(difference(a, b, i)) }

func difference(a, b *side, i int) string {
	if b.Level == Data || b.Level == Whole && equalBut(b.Volatile, a.bodies[i], b.bodies[i]) {
		return ""
	}
	if most := max(len(a.bodies[i]), len(b.bodies[i])); most > bound.Parsed {
		return fmt.Sprintf("one has %d MiB, and from %d MiB on only bytes are compared", most>>20, bound.Parsed>>20)
	}
	sides, both := [2]*side{a, b}, [2]*answer{}
	for n, s := range sides {
		var err error
		if both[n], err = formats[s.Answers].parse(s.bodies[i], &s.operations[i]); err != nil {
			return fmt.Sprintf("%s: %v", s.Name, err)
		}
		if b.Level != Whole {
			both[n] = common(both[n], s.Reading)
		}
	}
	if b.Level != Whole && both[0].nameless() != both[1].nameless() {
		both[0], both[1] = both[0].unnamed(), both[1].unnamed()
	}
	if a.operations[i].chooses() {
		untie(both)
	}
	x, y := both[0], both[1]
	if x.kind != y.kind {
		return fmt.Sprintf("one is %s, the other %s", x.kind, y.kind)
	}
	for n := range both {
		for _, key := range slices.Sorted(maps.Keys(both[n].series)) {
			if _, has := both[1-n].series[key]; !has {
				return fmt.Sprintf("series %s is only in the answer of %s", key, sides[n].Name)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(x.series)) {
		if what := differPoints(x.series[key], y.series[key], b.Level); what != "" {
			return fmt.Sprintf("series %s: %s", key, what)
		}
	}
	return ""
}

// common translates an answer so that databases can be compared: fields without the prefix of their database,
// points at the end of their windows, and no kind, since each API has its own.
func common(from *answer, r Reading) *answer {
	to := &answer{series: make(map[string][]point, len(from.series))}
	for key, points := range from.series {
		for i := range points {
			points[i].seconds += r.Shift
		}
		if rest, has := strings.CutPrefix(key, `{__name__="`+r.Prefix); has {
			key = `{__name__="` + rest
		}
		to.series[key] = points
	}
	return to
}
