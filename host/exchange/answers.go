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
	// differ says in a phrase what differs beyond the tolerance, "" for nothing.
	differ func(names [2]string, a, b []byte) (string, error)
}

var formats = map[string]format{"prometheus": {emptyPrometheus, differPrometheus}}

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
	Status, Error string
	IsPartial     bool
	Data          struct {
		ResultType string
		Result     json.RawMessage
	}
}

type prometheusSeries struct {
	Metric map[string]string
	Value  *prometheusPoint
	Values []prometheusPoint
}

type prometheusPoint struct {
	seconds float64
	value   string
}

func (p *prometheusPoint) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[2]any{&p.seconds, &p.value})
}

func differPrometheus(names [2]string, a, b []byte) (string, error) {
	var answers [2]prometheusAnswer
	var series [2]map[string][]prometheusPoint
	for i, body := range [2][]byte{a, b} {
		var err error
		if series[i], err = readPrometheus(body, &answers[i]); err != nil {
			return "", fmt.Errorf("%s: %w", names[i], err)
		}
	}
	x, y := answers[0], answers[1]
	if x.Data.ResultType != y.Data.ResultType || x.Status != y.Status || x.IsPartial != y.IsPartial {
		return fmt.Sprintf("one is %s of status %s, partial: %t, the other %s of status %s, partial: %t",
			x.Data.ResultType, x.Status, x.IsPartial, y.Data.ResultType, y.Status, y.IsPartial), nil
	}
	for i := range series {
		for _, key := range slices.Sorted(maps.Keys(series[i])) {
			if _, both := series[1-i][key]; !both {
				return fmt.Sprintf("series %s is only in the answer of %s", key, names[i]), nil
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(series[0])) {
		if what := differPoints(series[0][key], series[1][key]); what != "" {
			return fmt.Sprintf("series %s: %s", key, what), nil
		}
	}
	return "", nil
}

func readPrometheus(body []byte, answer *prometheusAnswer) (map[string][]prometheusPoint, error) {
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %w", err)
	}
	if answer.Data.ResultType == "scalar" || answer.Data.ResultType == "string" {
		var point prometheusPoint
		err := json.Unmarshal(answer.Data.Result, &point)
		return map[string][]prometheusPoint{"{}": {point}}, err
	}
	var all []prometheusSeries
	if err := json.Unmarshal(answer.Data.Result, &all); err != nil {
		return nil, fmt.Errorf("the answer's result is no list of series: %w", err)
	}
	series := make(map[string][]prometheusPoint, len(all))
	for _, one := range all {
		var key strings.Builder
		for i, name := range slices.Sorted(maps.Keys(one.Metric)) {
			fmt.Fprintf(&key, "%s%s=%q", []string{"", ","}[min(i, 1)], name, one.Metric[name])
		}
		if one.Value != nil {
			one.Values = append(one.Values, *one.Value)
		}
		name := "{" + key.String() + "}"
		if _, twice := series[name]; twice {
			return nil, fmt.Errorf("the answer has series %s twice", name)
		}
		series[name] = one.Values
	}
	return series, nil
}

func differPoints(a, b []prometheusPoint) string {
	for i := range min(len(a), len(b)) {
		if a[i].seconds != b[i].seconds {
			return fmt.Sprintf("point %d is at %s and at %s", i+1, number(a[i].seconds), number(b[i].seconds))
		}
		if !sameValue(a[i].value, b[i].value) {
			return fmt.Sprintf("at %s the values are %s and %s", number(a[i].seconds), a[i].value, b[i].value)
		}
	}
	if len(a) != len(b) {
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
