package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tolerance is how far two values of one point may lie apart, relative to the larger one: sums in another order.
const Tolerance = 1e-9

// format reads one API's answers.
type format struct {
	empty func(body []byte) (bool, error)
	// parse is off the clock, and done of answers of the same database only where their bytes differ. asked is what was
	// asked, for an API whose answers do not name everything.
	parse func(body []byte, asked *Operation) (*answer, error)
}

var formats = map[string]format{"prometheus": {emptyPrometheus, parsePrometheus}, "influxql": {emptyInfluxQL, parseInfluxQL}}

// answer is what any API's answer says.
type answer struct {
	kind   string             // what it says of itself, beside the series
	series map[string][]point // by tags in alphabetical order, {a="x",b="y"}; the metric's name is the tag __name__
}

// point is a value as it was written, at a time in seconds since the epoch.
type point struct {
	seconds float64
	value   string
}

// Level is how far the answers of two sides are compared.
type Level string

// Levels, from everything that the answers of one database say down to whether there is data.
const (
	Whole  Level = ""       // answers of the same database: equal bytes, or else all that the API says
	Values Level = "values" // the same series, and in each the same values at the same times
	Points Level = "points" // the same series, and in each as many points
	Series Level = "series" // the same series
	Data   Level = "data"   // there is data in both, which is counted beside all levels
)

// equalBut says whether two bodies have the same bytes once what the pattern finds is taken out of both.
func equalBut(volatile *regexp.Regexp, a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	for volatile != nil {
		x, y := volatile.FindIndex(a), volatile.FindIndex(b)
		if x == nil || y == nil || x[1] == 0 || y[1] == 0 {
			break
		}
		if !bytes.Equal(a[:x[0]], b[:y[0]]) {
			return false
		}
		a, b = a[x[1]:], b[y[1]:]
	}
	return bytes.Equal(a, b)
}

var resultKey = []byte(`"result":`)

// emptyPrometheus looks for the first series only: it sees every answer, and answers can be 100 MB.
func emptyPrometheus(body []byte) (bool, error) {
	at := bytes.Index(body, resultKey)
	if at < 0 {
		return false, fmt.Errorf("no answer of Prometheus' API: %s", firstLine(body))
	}
	result := bytes.TrimLeft(body[at+len(resultKey):], " \t\r\n")
	if len(result) == 0 || result[0] != '[' {
		return false, fmt.Errorf("no answer of Prometheus' API: %s", firstLine(body))
	}
	result = bytes.TrimLeft(result[1:], " \t\r\n")
	return len(result) == 0 || result[0] == ']', nil
}

type prometheusAnswer struct {
	Status    string
	IsPartial bool
	Data      struct {
		ResultType string
		Result     json.RawMessage
	}
}

type prometheusSeries struct {
	Metric map[string]string
	Value  *point
	Values points
}

// points are read by hand, which takes a tenth of the time: an answer can have millions of them.
type points []point

// UnmarshalJSON reads [[1749513600,"0.5"],...].
func (all *points) UnmarshalJSON(text []byte) error {
	*all = make(points, 0, bytes.Count(text, []byte("\",")))
	rest := text[min(1, len(text)):]
	for {
		end := bytes.Index(rest, []byte(`"]`)) // a value is a number: there are no quotes in it
		if end < 0 {
			return nil
		}
		var one point
		if err := one.UnmarshalJSON(rest[max(0, bytes.IndexByte(rest, '[')) : end+2]); err != nil {
			return err
		}
		*all, rest = append(*all, one), rest[end+2:]
	}
}

// UnmarshalJSON reads [1749513600,"0.5"].
func (p *point) UnmarshalJSON(text []byte) (err error) {
	at, value, _ := bytes.Cut(bytes.Trim(text, "[] \t\r\n"), []byte{','})
	if p.seconds, err = strconv.ParseFloat(string(bytes.TrimSpace(at)), 64); err != nil {
		return fmt.Errorf("%s is no point of an answer", firstLine(text))
	}
	p.value = string(bytes.Trim(value, "\" \t\r\n"))
	return nil
}

func parsePrometheus(body []byte, _ *Operation) (*answer, error) {
	var said prometheusAnswer
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %w", err)
	}
	read := &answer{kind: fmt.Sprintf("%s of status %s, partial: %t", said.Data.ResultType, said.Status, said.IsPartial)}
	if said.Data.ResultType == "scalar" || said.Data.ResultType == "string" {
		var one point
		err := json.Unmarshal(said.Data.Result, &one)
		read.series = map[string][]point{"{}": {one}}
		return read, err
	}
	var all []prometheusSeries
	if err := json.Unmarshal(said.Data.Result, &all); err != nil {
		return nil, fmt.Errorf("the answer's result is no list of series: %w", err)
	}
	read.series = make(map[string][]point, len(all))
	for _, one := range all {
		if one.Value != nil {
			one.Values = append(one.Values, *one.Value)
		}
		key := keyOf(one.Metric)
		if _, twice := read.series[key]; twice {
			return nil, fmt.Errorf("the answer has series %s twice", key)
		}
		read.series[key] = one.Values
	}
	return read, nil
}

// keyOf is the name of a series by its tags.
func keyOf(tags map[string]string) string {
	var key strings.Builder
	for i, name := range slices.Sorted(maps.Keys(tags)) {
		fmt.Fprintf(&key, "%s%s=%q", []string{"", ","}[min(i, 1)], name, tags[name])
	}
	return "{" + key.String() + "}"
}

// differ says in a phrase what answers of the same operation to two sides do not share, "" for nothing.
func differ(a, b *side, i int) string {
	if b.Level == Data || b.Level == Whole && equalBut(b.Volatile, a.bodies[i], b.bodies[i]) {
		return ""
	}
	var both [2]*answer
	names := [2]string{a.Name, b.Name}
	for n, s := range [2]*side{a, b} {
		var err error
		if both[n], err = formats[s.Answers].parse(s.bodies[i], &s.operations[i]); err != nil {
			return fmt.Sprintf("%s: %v", s.Name, err)
		}
	}
	if b.Level != Whole {
		both[0], both[1] = common(both[0], a.Reading), common(both[1], b.Reading)
		if both[0].nameless() != both[1].nameless() {
			both[0], both[1] = both[0].unnamed(), both[1].unnamed()
		}
	}
	return differAnswers(names, both, b.Level)
}

func differAnswers(names [2]string, both [2]*answer, level Level) string {
	x, y := both[0], both[1]
	if x.kind != y.kind {
		return fmt.Sprintf("one is %s, the other %s", x.kind, y.kind)
	}
	for i, one := range both {
		for _, key := range slices.Sorted(maps.Keys(one.series)) {
			if _, has := both[1-i].series[key]; !has {
				return fmt.Sprintf("series %s is only in the answer of %s", key, names[i])
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(x.series)) {
		if what := differPoints(x.series[key], y.series[key], level); what != "" {
			return fmt.Sprintf("series %s: %s", key, what)
		}
	}
	return ""
}

var nameTag = regexp.MustCompile(`^\{__name__="([^"]*)",?`)

// common is an answer in words that databases share: fields by their names alone, points at the end of their windows. What
// kind of answer an API calls it is its own.
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

// nameless says whether no series has a name: PromQL's functions drop it, as a rule.
func (a *answer) nameless() bool {
	for key := range a.series {
		if nameTag.MatchString(key) {
			return false
		}
	}
	return len(a.series) > 0
}

// unnamed is an answer without the names of its series, or as it is where that would make two of them one.
func (a *answer) unnamed() *answer {
	to := &answer{kind: a.kind, series: make(map[string][]point, len(a.series))}
	for key, points := range a.series {
		to.series[nameTag.ReplaceAllString(key, "{")] = points
	}
	if len(to.series) < len(a.series) {
		return a
	}
	return to
}

func differPoints(a, b []point, level Level) string {
	if level == Whole || level == Values {
		for i := range min(len(a), len(b)) {
			if a[i].seconds != b[i].seconds {
				return fmt.Sprintf("point %d is at %s and at %s", i+1, number(a[i].seconds), number(b[i].seconds))
			}
			if !sameValue(a[i].value, b[i].value) {
				return fmt.Sprintf("at %s the values are %s and %s", number(a[i].seconds), a[i].value, b[i].value)
			}
		}
	}
	if len(a) != len(b) && level != Series {
		return fmt.Sprintf("it has %d points and %d points", len(a), len(b))
	}
	return ""
}

func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		return false
	}
	return x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) < Tolerance*math.Max(math.Abs(x), math.Abs(y))
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
