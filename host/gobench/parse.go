package gobench

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// result is one line as golang.org/design/14313-benchmark-format has them: the name without -GOMAXPROCS, values by unit as printed.
type result struct {
	name   string
	count  int64
	values map[string]float64
}

// seconds of one operation; 0 where the benchmark does not say.
func (r result) seconds() float64 { return r.values["ns/op"] / 1e9 }

// finite reads a number; what a benchmark has divided by nothing is none, and no JSON has it.
func finite(text string) (float64, bool) {
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

// results reads the result lines of a text; what is no such line is none.
func results(text string, cpu int) (found []result) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if !strings.HasPrefix(line, "Benchmark") || len(f) < 4 {
			continue
		}
		count, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		r := result{f[0], count, map[string]float64{}}
		if cpu != 1 {
			r.name = strings.TrimSuffix(r.name, "-"+strconv.Itoa(cpu))
		}
		for i := 2; i+1 < len(f); i += 2 {
			if value, ok := finite(f[i]); ok {
				r.values[f[i+1]] = value
			}
		}
		found = append(found, r)
	}
	return found
}

// tidied is a unit as benchstat calls it: ns/op is sec/op, MB/s is B/s.
func tidied(unit string) string {
	for _, rule := range []struct{ from, to string }{{"ns/op", "sec/op"}, {"ns", "sec"}, {"MB/s", "B/s"}, {"MB", "B"}} {
		if head, ok := strings.CutSuffix(unit, rule.from); ok && (head == "" || strings.HasSuffix(head, "-")) {
			return head + rule.to
		}
	}
	return unit
}

// least is the smallest value that a text shows of what a rule requires, 0 where it shows none: one empty answer among full ones is
// an empty answer.
func (r requirement) least(text string, of []result) float64 {
	var seen []float64
	for _, one := range of {
		for unit, value := range one.values {
			if r.output == nil && tidied(unit) == tidied(r.what) {
				seen = append(seen, value)
			}
		}
	}
	if r.output != nil {
		for _, match := range r.output.FindAllStringSubmatch(text, -1) {
			value, ok := finite(match[1])
			if !ok {
				value = 0
			}
			seen = append(seen, value)
		}
	}
	if len(seen) == 0 {
		return 0
	}
	least := seen[0]
	for _, value := range seen {
		least = min(least, value)
	}
	return least
}

var (
	trouble = regexp.MustCompile(`^(--- FAIL|--- SKIP|panic: |fatal error: )`)
	// What says nothing of why.
	usual = regexp.MustCompile(`^(FAIL|PASS|Benchmark\S*|exit status.*|(goos|goarch|pkg|cpu): .*)?$`)
)

const shownBytes = 400

// troubleIn is what a test binary says around the first mark of a failed or skipped benchmark, in one line; empty without one.
func troubleIn(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !trouble.MatchString(line) {
			continue
		}
		var words []string
		// With -test.v a benchmark's own words stand before its mark.
		for _, near := range lines[max(0, i-4):min(len(lines), i+2)] {
			if !usual.MatchString(near) {
				words = append(words, strings.Fields(near)...)
			}
		}
		return shown(strings.Join(words, " "))
	}
	return ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return shown(lines[len(lines)-1])
}

func shown(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), shownBytes)], "")
}

// alone is the pattern that matches this benchmark and no other.
func alone(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
