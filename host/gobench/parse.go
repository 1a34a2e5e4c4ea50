package gobench

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// result is a line of golang.org/design/14313-benchmark-format. The name is without -GOMAXPROCS.
type result struct {
	name   string
	count  int64
	values map[string]float64
}

// seconds returns the time of one operation, 0 if the benchmark does not print it.
func (r result) seconds() float64 { return r.values["ns/op"] / 1e9 }

// finite reads a number. JSON has no NaN and no infinity, which a benchmark prints after a division by 0.
func finite(text string) (float64, bool) {
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

// resultLine is a result, which shares its line with what a benchmark has printed without a newline.
var resultLine = regexp.MustCompile(`(Benchmark\S*)[ \t]+([0-9]+)[ \t]+([-+0-9.NI].*)$`)

// results reads the result lines of a text, and skips all others.
func results(text string, cpu int) (all []result) {
	for line := range strings.Lines(text) {
		match := resultLine.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if match == nil {
			continue
		}
		f := append([]string{match[1], match[2]}, strings.Fields(match[3])...)
		count, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || len(f) < 4 {
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
		all = append(all, r)
	}
	return all
}

// started is a benchmark that has begun, perhaps behind words that its parent left on the line; behind a colon it is a
// mark, as in `--- FAIL: BenchmarkX`.
var started = regexp.MustCompile(`(?m)(?:^|[^:\n] )(Benchmark\S*)\r?$`)

// ofGo separates results that Go printed from lines in their format that a benchmark prints itself. Go prints the name
// alone before a benchmark runs (-test.v), and one result, with allocations (-test.benchmem), when it has ended.
func ofGo(all []result, text string) (kept []result, own []string) {
	names := map[string]bool{}
	for _, m := range started.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	for i, r := range all {
		_, counted := r.values["allocs/op"]
		again := slices.ContainsFunc(all[i+1:], func(later result) bool { return later.name == r.name })
		if counted && names[r.name] && !again {
			kept = append(kept, r)
		} else if !slices.Contains(own, r.name) {
			own = append(own, r.name)
		}
	}
	return kept, own
}

// tidied returns benchstat's name of a unit: ns/op is sec/op, MB/s is B/s.
func tidied(unit string) string {
	for _, rule := range []struct{ from, to string }{{"ns/op", "sec/op"}, {"ns", "sec"}, {"MB/s", "B/s"}, {"MB", "B"}} {
		if head, ok := strings.CutSuffix(unit, rule.from); ok && (head == "" || strings.HasSuffix(head, "-")) {
			return head + rule.to
		}
	}
	return unit
}

// least returns the smallest value of what a rule requires, 0 if there is none. One empty answer is an error.
func (r requirement) least(text string, printed []result) float64 {
	var values []float64
	if r.output != nil {
		for _, match := range r.output.FindAllStringSubmatch(text, -1) {
			value, ok := finite(match[1])
			if !ok {
				value = 0
			}
			values = append(values, value)
		}
	} else {
		for _, line := range printed {
			for unit, value := range line.values {
				if tidied(unit) == tidied(r.what) {
					values = append(values, value)
				}
			}
		}
	}
	if len(values) == 0 {
		return 0
	}
	return slices.Min(values)
}

var (
	trouble = regexp.MustCompile(`--- (FAIL|SKIP): Benchmark|^(--- FAIL|--- SKIP|panic: |fatal error: )`)
	passed  = regexp.MustCompile(`(?m)PASS\r?$`) // maybe behind what was printed without a newline
	// Lines that do not say why a benchmark failed.
	usual = regexp.MustCompile(`^(FAIL|PASS|Benchmark\S*|exit status.*|(goos|goarch|pkg|cpu): .*)?$`)
)

// troubleIn returns the output around the first mark of a failed or skipped benchmark, as one line, or "".
func troubleIn(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !trouble.MatchString(line) {
			continue
		}
		var words []string
		// With -test.v the output of a benchmark is before its mark.
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
	return strings.ToValidUTF8(text[:min(len(text), 400)], "")
}

func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// requirement is a rule of gobench.require, of the metric what, or of a pattern in the output.
type requirement struct {
	what   string
	output *regexp.Regexp // nil for a metric
}

func namesOf(results []result, most int) (names []string) {
	for _, r := range results[:min(len(results), most)] {
		names = append(names, r.name)
	}
	return names
}
