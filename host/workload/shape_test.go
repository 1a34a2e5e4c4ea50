package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func shaped(change func(*Shape)) Shape {
	s := Shape{Format: "exposition", Targets: 3, Start: 1749513600, End: 1749513600 + 3600, IntervalS: 60, Seed: 7,
		Gauges: 2, Counters: 2, Histograms: 1, Labels: 2, ValueLength: 12}
	if change != nil {
		change(&s)
	}
	return s
}

func linesOf(t *testing.T, s Shape) string {
	t.Helper()
	var text bytes.Buffer
	must(t, s.Write(&text))
	return text.String()
}

// A target has two gauges, two counters, and a histogram of fourteen series; the database's own parser reads all.
func TestAShapeHasItsSeriesAndSamplesInBothFormats(t *testing.T) {
	for _, format := range []string{"exposition", "influx"} {
		for _, escaped := range []float64{0, 100} {
			s := shaped(func(s *Shape) { s.Format, s.EscapedPct = format, escaped })
			given, err := json.Marshal(s)
			must(t, err)
			d, err := MakeShape(t.Context(), string(given), t.TempDir())
			must(t, err)
			if d.Format != format || d.Series != 3*18 || d.Samples != 3*18*60 || d.Duplicates+d.Late != 0 ||
				d.Start != s.Start*1000 || d.End != (s.End-60)*1000 {
				t.Errorf("%s, %g %% escaped: %+v", format, escaped, d)
			}
			if has := strings.Contains(linesOf(t, s), `\`); has != (escaped > 0) {
				t.Errorf("%s, %g %% escaped: a backslash: %v", format, escaped, has)
			}
		}
	}
}

func TestTheSameSeedGivesTheSameBytesAndAnotherOneOthers(t *testing.T) {
	one, again := linesOf(t, shaped(nil)), linesOf(t, shaped(nil))
	other := linesOf(t, shaped(func(s *Shape) { s.Seed = 8 }))
	if one != again || one == other {
		t.Error(one == again, one == other)
	}
	if first, _, _ := strings.Cut(one, "\n"); first != `shape_gauge_0{job="shape",instance="host_0:9100",pod="app-0-0",`+
		`label_0="31qnyv5qu1kh",label_1="3i0tnb0pw5jh"} 74.82 1749513600000` {
		t.Errorf("plans of before have other data: %s", first)
	}
}

func TestCountersAndBucketsNeverFall(t *testing.T) {
	last := map[string]float64{}
	sample := regexp.MustCompile(`(?m)^(\S*(?:_total|_bucket|_count)\{.*\}) (\S+) \d+$`)
	for _, found := range sample.FindAllStringSubmatch(linesOf(t, shaped(nil)), -1) {
		value, err := strconv.ParseFloat(found[2], 64)
		if err != nil || value < last[found[1]] {
			t.Fatal(found, last[found[1]], err)
		}
		last[found[1]] = value
	}
	if len(last) != 3*(2+13) {
		t.Error(len(last))
	}
}

// A fifth of the targets, on average, gets another pod every quarter of an hour.
func TestTargetsComeAndGoWithChurn(t *testing.T) {
	text := linesOf(t, shaped(func(s *Shape) { s.Targets, s.IntervalS, s.ChurnPct, s.ChurnEveryS = 100, 900, 20, 900 }))
	pods := map[string]bool{}
	for _, found := range regexp.MustCompile(`pod="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		pods[found[1]] = true
	}
	if len(pods) < 100+3*10 || len(pods) > 100+3*30 {
		t.Error(len(pods))
	}
}

// Pods that come and go every second for weeks are drawn once each, and not again for each sample.
func TestChurnIsDrawnOnce(t *testing.T) {
	s := shaped(func(s *Shape) { s.ChurnPct, s.ChurnEveryS = 50, 1 })
	generation := 1000
	for turn := uint64(30); turn < 60; turn++ {
		if s.drawn(4, turn, 0)%10_000 < 5000 {
			generation++
		}
	}
	s.pods = []pod{{turns: 30, generation: 1000}} // as it was after 30 s
	if labels := s.labels(0, s.Start+60); !strings.Contains(labels, fmt.Sprintf(`pod="app-0-%d"`, generation)) {
		t.Errorf("not generation %d: %s", generation, labels)
	}
}
