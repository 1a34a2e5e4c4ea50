package main

import (
	"strings"
	"testing"
)

// Names, numbers, escapes and functions are those of the language's own parser. A name that the data lack matters only
// where the query has no answer without it.
func TestEachLanguageHasItsOwnParser(t *testing.T) {
	names := map[string]bool{"a": true, ":b:c": true, "x y": true, "имя": true}
	for _, c := range []struct {
		language, text, wrong, lacks string
		back                         float64
	}{
		{"metricsql", `sum by (l, m) (rate(a{c="d"}[5m])) / on (l) group_left (m) other`, "", "other", 300},
		{"metricsql", `sum(a) by (l) > bool 1.5e3 and z offset 1h`, "", "z", 3600},
		{"metricsql", `{__name__="gone", l=~"b.*"}`, "", "gone", 0},
		{"metricsql", `{__name__="gone" or __name__="a"}`, "", "", 0},
		{"metricsql", `WITH (f = gone{l='b'}) f / a`, "", "gone", 0},
		{"metricsql", `max_over_time((a + 5m)[1h:30s] offset 1d)`, "", "", 90_000},
		{"metricsql", `1 - sum(:b:c) / 1_000Ki`, "", "", 0},
		{"metricsql", `max(x\ y) + {"x y"} + имя`, "", "", 0},
		{"metricsql", `gone or a`, "", "", 0},
		{"metricsql", `absent(gone) + count(a offset -1h)`, "", "", 0},
		{"metricsql", `a unless gone`, "", "", 0},
		{"metricsql", `a - Rand()`, "another thing each time, by rand()", "", 0},
		{"metricsql", `now() - a`, "another thing each time, by now()", "", 0},
		{"metricsql", `histogram_count(a)`, `unsupported function "histogram_count"`, "", 0},
		{"metricsql", `a{l=~"["}`, "does not parse: ", "", 0},
		{"metricsql", `sum(a`, "does not parse: ", "", 0},
		{"metricsql", ` select mean(x) from y`, "looks like InfluxQL, and this database is asked PromQL or MetricsQL", "", 0},
		{"metricsql", " \n", "is empty", "", 0},
		{"metricsql", strings.Repeat("a+", textMost) + "a", "bytes, and at most 65536 are asked", "", 0},
		{"promql", `histogram_count(a * 1_000)`, "", "", 0},
		{"promql", `rate(a[5m] offset 1h)[1d:1h]`, "", "", 90_300},
		{"promql", `{"x y"} + :b:c or gone`, "", "", 0},
		{"promql", `gone + a`, "", "gone", 0},
		{"promql", `absent_over_time(gone[5m]) unless gone`, "", "", 300},
		{"promql", `limitk(2, a)`, "", "", 0}, // with --enable-feature=promql-experimental-functions
		{"promql", `median(a)`, `unknown function with name "median"`, "", 0},
		{"promql", `a{l="\q"}`, "unknown escape sequence", "", 0},
		{"promql", `SELECT 1`, "looks like InfluxQL, and this database is asked PromQL", "", 0},
		{"influxql", `SELECT mean("x y") FROM cpu WHERE time >= '2025-06-10T00:00:00Z' GROUP BY time(1m)`, "", "", 0},
		{"influxql", `SELECT x FROM cpu WHERE time > NOW() - 1h`, "another thing each time, by now()", "", 0},
		{"influxql", `SHOW TAG KEYS`, "", "", 0},
		{"influxql", `SELECT x INTO y FROM cpu`, "writes INTO a measurement", "", 0},
		{"influxql", `DROP DATABASE x`, "begins with DROP", "", 0},
		{"influxql", `SELECT x FROM`, "does not parse: ", "", 0},
		{"influxql", `sum(a)`, "looks like PromQL, and this database is asked InfluxQL", "", 0},
		{"sql", `SELECT 1`, `does not know: "sql"`, "", 0},
	} {
		got := Examine(c.language, c.text, names)
		if c.wrong == "" && got != (Known{"", c.lacks, c.back}) || !strings.Contains(got.Wrong, c.wrong) {
			t.Errorf("%s %.80q: %+v, want %q, %q, %g", c.language, c.text, got, c.wrong, c.lacks, c.back)
		}
	}
}

// Any text is a query, or a phrase that is no longer than a line.
func FuzzAnyTextIsExaminedOrRefused(f *testing.F) {
	for _, text := range []string{"sum(a)", `{"a"}`, "SELECT x FROM y", "WITH (a=b) a", "\xff{", "a[5i]", `"\u`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, language := range []string{"metricsql", "promql", "influxql"} {
			if got := Examine(language, text, nil); len(got.Wrong) > 2*wordsMost || got.BackS < 0 {
				t.Errorf("%s %q: %+v", language, text, got)
			}
		}
	})
}
