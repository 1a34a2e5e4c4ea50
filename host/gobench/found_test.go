package gobench

import (
	"strings"
	"testing"

	"tsduel/host/record"
)

const begun = "goos: linux\nBenchmarkA\n"

// What became of each benchmark of a warm-up is read from its output: failed, skipped, the one that ended the process.
func TestOutcomes(t *testing.T) {
	measured := "-2 \t 10 \t 80 ns/op \t 0 B/op \t 0 allocs/op\n"
	text := begun + "..BenchmarkA" + measured + "BenchmarkF\npre     h_test.go:5: down\n--- FAIL: BenchmarkF\n" +
		"BenchmarkSub\nBenchmarkSub/one\nBenchmarkSub/one" + measured +
		"BenchmarkSub/sk\n    h_test.go:11: no bucket\n--- SKIP: BenchmarkSub/sk\n" +
		"--- FAIL: BenchmarkSub\nBenchmarkStops\n"
	o := output{text: text}
	o.results, o.own = ofGo(results(text, 2), text)
	f := outcomes(o, "ended with exit code 2: panic: queue is closed")
	f.never([]string{"BenchmarkA", "BenchmarkSub", "BenchmarkLast", "Other"}, "^BenchmarkLast|A$/x")
	var got []string
	for _, o := range f.outcomes {
		got = append(got, o.name+"="+o.why)
	}
	want := []string{"BenchmarkA=", "BenchmarkF=BenchmarkF failed: pre h_test.go:5: down --- FAIL: BenchmarkF",
		"BenchmarkSub/one=",
		"BenchmarkSub/sk=BenchmarkSub/sk was skipped: h_test.go:11: no bucket --- SKIP: BenchmarkSub/sk",
		"BenchmarkStops=BenchmarkStops ended with exit code 2: panic: queue is closed",
		"BenchmarkLast=BenchmarkLast was not run, since BenchmarkStops ended the process"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Go prints marks of names that end in a number without -GOMAXPROCS where that is 1, and with it elsewhere; a parent
// may leave words on the line of the first name inside it.
func TestNamesThatEndInANumberAndWordsBeforeAName(t *testing.T) {
	text := begun + "preparing... BenchmarkA/rows-1000\n--- FAIL: BenchmarkA/rows-1000\n" +
		"BenchmarkA/rows\n--- SKIP: BenchmarkA/rows-2\n--- FAIL: BenchmarkA\nFAIL\n"
	f := outcomes(output{text: text}, "ended")
	if len(f.outcomes) != 2 || !strings.HasPrefix(f.outcomes[0].why, "BenchmarkA/rows-1000 failed:") ||
		!f.outcomes[1].skipped {
		t.Errorf("%+v of %q", f.outcomes, f.begun)
	}
}

// A row that one variant lacks, for whatever reason, is a failed check of the warm-up; what all skip is none.
// A benchmark that fails before it begins those inside it is why these are not there.
func TestWhatIsAroundARowSaysWhyItIsNotThere(t *testing.T) {
	why := "BenchmarkSub failed: open x"
	found := map[string]map[string]outcome{"Sub": {"candidate": {why: why}}, "Sub/one": {"baseline": {}}}
	for row, want := range map[string]string{"Sub/one": why, "Sub/a/b": why, "Sub": "", "Other/one": ""} {
		if got := whyAbove(found, row, "candidate"); got != want {
			t.Errorf("%s: %q", row, got)
		}
	}
}

func TestARowOfOneSideIsAFailedCheck(t *testing.T) {
	for name, want := range map[string]string{
		"Work":                   "candidate: ; baseline: there is no benchmark for the row Work/new",
		"Odd":                    "candidate: BenchmarkOdd ended with exit code 2: panic: odd; baseline: ",
		"Odd|Benchmark(Skips|Z)": "candidate: BenchmarkZ was not run, since BenchmarkOdd ended the process; baseline: ",
		"Skips|BenchmarkZ":       "candidate: ; baseline: ",
	} {
		r := newRun(t, "^Benchmark("+strings.ReplaceAll(name, "|Benchmark", "|")+")$", 10, 11)
		last := map[string]record.Check{}
		for _, c := range r.block(0, "warmup").Checks {
			if c.Check == "bench_found" {
				if c.QueryType == "Skips" {
					t.Errorf("what all skip: %+v", c)
				}
				last[c.Variant] = c
			}
		}
		got := "candidate: " + last["candidate"].Message + "; baseline: " + last["baseline"].Message
		if len(last) != 2 || !strings.HasPrefix(got, want) || strings.HasSuffix(want, ": ") && got != want {
			t.Errorf("%s: %d checks, %s, want %s", name, len(last), got, want)
		}
		for variant, c := range last {
			if c.OK != (c.Message == "") {
				t.Errorf("%s, %s: %+v", name, variant, c)
			}
		}
	}
}
