package exchange

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tolerance is the relative difference of two equal values: sums may be in another order.
const tolerance = 1e-9

type answer struct {
	kind   string             // all that the API says beside the series
	series map[string][]point // by tags in alphabetical order, {a="x",b="y"}; the metric's name is the tag __name__
}

// point is a value as the answer writes it, at a time in seconds since the epoch.
type point struct {
	seconds float64
	value   string
}

// Level is how far the answers of two sides are compared.
type Level string

// Levels, from the strictest to the loosest.
const (
	Whole  Level = ""       // answers of the same database: equal bytes, or else all that the API says
	Values Level = "values" // the same series, and in each the same values at the same times
	Points Level = "points" // the same series, and in each the same number of points
	Series Level = "series" // the same series
	Data   Level = "data"   // both have data: this is counted at every level
)

// equalBut says whether two bodies have the same bytes, apart from what the pattern matches.
func equalBut(volatile *regexp.Regexp, a, b []byte) bool {
	for volatile != nil {
		x, y := volatile.FindIndex(a), volatile.FindIndex(b)
		if x == nil || y == nil || x[1] == 0 || !bytes.Equal(a[:x[0]], b[:y[0]]) {
			break
		}
		a, b = a[x[1]:], b[y[1]:]
	}
	return bytes.Equal(a, b)
}

const space = " \t\r\n"

// emptyPrometheus looks only for the first series: it sees every answer, and an answer can have 100 MB.
func emptyPrometheus(body []byte) (bool, error) {
	_, result, _ := bytes.Cut(body, []byte(`"result":`))
	series, isList := bytes.CutPrefix(bytes.TrimLeft(result, space), []byte("["))
	if !isList {
		return false, fmt.Errorf("no answer of Prometheus' API: %s", firstLine(body))
	}
	series = bytes.TrimLeft(series, space)
	return len(series) == 0 || series[0] == ']', nil
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
	Metric        map[string]string
	Value, Values points
	Histogram     json.RawMessage // [time, native histogram], compared as text
	Histograms    []json.RawMessage
}

// histogramOf is a point whose value is a native histogram.
func histogramOf(text json.RawMessage) (p point, err error) {
	var parts [2]json.RawMessage
	if err = json.Unmarshal(text, &parts); err == nil {
		p.value, err = string(parts[1]), json.Unmarshal(parts[0], &p.seconds)
	}
	return p, err
}

// points are not parsed by encoding/json, which takes ten times as long: an answer can have millions of them.
type points []point

// UnmarshalJSON reads [1749513600,"0.5"] and [[1749513600,"0.5"],...].
func (all *points) UnmarshalJSON(text []byte) error {
	*all = make(points, 0, bytes.Count(text, []byte("\",")))
	for {
		end := bytes.Index(text, []byte(`"]`)) // a value is a number: it has no quotes in it
		if end < 0 {
			if rest := bytes.Trim(text, "[],"+space); len(rest) > 0 && string(rest) != "null" {
				return fmt.Errorf("%s is no point of an answer", firstLine(rest))
			}
			return nil
		}
		at, value, _ := bytes.Cut(bytes.TrimLeft(text[:end], "[,"+space), []byte{','})
		seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
		if err != nil {
			return fmt.Errorf("%s is no point of an answer", firstLine(text))
		}
		*all, text = append(*all, point{seconds, string(bytes.TrimLeft(value, `"`+space))}), text[end+2:]
	}
}

func parsePrometheus(body []byte, _ *Operation) (*answer, error) {
	var reply prometheusAnswer
	if err := json.Unmarshal(body, &reply); err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %w", err)
	}
	data := reply.Data
	parsed := &answer{kind: fmt.Sprintf("%s of status %s, partial: %t", data.ResultType, reply.Status, reply.IsPartial)}
	if data.ResultType == "scalar" || data.ResultType == "string" {
		var one points
		err := json.Unmarshal(data.Result, &one)
		parsed.series = map[string][]point{"{}": one}
		return parsed, err
	}
	parsed.series = map[string][]point{}
	// One series after the other: all of a list of {} would take 20 times its bytes.
	list := json.NewDecoder(bytes.NewReader(data.Result))
	begin, err := list.Token()
	if begin != json.Delim('[') {
		err = cmp.Or(err, errors.New("it does not begin with ["))
	}
	for err == nil && list.More() {
		var series prometheusSeries
		if err = list.Decode(&series); err != nil {
			break
		}
		key := keyOf(series.Metric)
		if _, twice := parsed.series[key]; twice {
			return nil, fmt.Errorf("the answer has series %s twice", key)
		}
		points := append(series.Values, series.Value...)
		if series.Histogram != nil {
			series.Histograms = append(series.Histograms, series.Histogram)
		}
		for _, text := range series.Histograms {
			var one point
			if one, err = histogramOf(text); err != nil {
				return nil, fmt.Errorf("%s is no histogram of an answer", firstLine(text))
			}
			points = append(points, one)
		}
		parsed.series[key] = points
	}
	if err != nil {
		return nil, fmt.Errorf("the answer's result is no list of series: %w", err)
	}
	return parsed, nil
}

func keyOf(tags map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", name, tags[name]))
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

var nameTag = regexp.MustCompile(`^\{__name__="([^"]*)",?`)

// nameless says whether there are series and none has a name: most of PromQL's functions drop it.
func (a *answer) nameless() bool {
	return len(a.series) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(a.series)), nameTag.MatchString)
}

// unnamed drops the names of the series, unless two series would become the same.
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
	return x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) < tolerance*math.Max(math.Abs(x), math.Abs(y))
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

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
	dropped := [2]map[string]map[float64]bool{{}, {}}
	for seconds, mine := range lone[0] {
		if !slices.EqualFunc(mine, lone[1][seconds], func(a, b tied) bool { return sameValue(a.value, b.value) }) {
			continue
		}
		for n := range both {
			for _, p := range lone[n][seconds] {
				if dropped[n][p.key] == nil {
					dropped[n][p.key] = map[float64]bool{}
				}
				dropped[n][p.key][seconds] = true
			}
		}
	}
	for n, of := range both {
		for key, times := range dropped[n] {
			of.series[key] = slices.DeleteFunc(of.series[key], func(p point) bool { return times[p.seconds] })
			if len(of.series[key]) == 0 {
				delete(of.series, key)
			}
		}
	}
}

// tied is a point of a series that the other answer does not have at that time.
type tied struct{ key, value string }

// lonePoints returns by time the points of a that b lacks, in the order of their values.
func lonePoints(a, b *answer) map[float64][]tied {
	all := map[float64][]tied{}
	for key, points := range a.series {
		has := make(map[float64]bool, len(b.series[key])) // an answer may have millions of points
		for _, p := range b.series[key] {
			has[p.seconds] = true
		}
		for _, p := range points {
			if !has[p.seconds] {
				all[p.seconds] = append(all[p.seconds], tied{key, p.value})
			}
		}
	}
	for _, points := range all {
		slices.SortFunc(points, func(x, y tied) int { return cmp.Compare(toFloat(x.value), toFloat(y.value)) })
	}
	return all
}

func toFloat(value string) float64 {
	x, _ := strconv.ParseFloat(value, 64) // 0 for what is no number: it has its place then, too
	return x
}
