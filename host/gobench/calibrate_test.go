package gobench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsduel/host/record"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// calibrated calibrates the output of variants: lines of NAME COUNT [NS/OP [SET-UP SECONDS]].
func calibrated(t *testing.T, g record.GoBench, variants ...string) (*record.Calibration, error) {
	t.Helper()
	g.CPU = new(1)
	plan, dir := &record.Plan{GoBench: &g}, t.TempDir()
	for i, lines := range variants {
		name := []string{"baseline", "candidate", "third"}[i]
		plan.Variants = append(plan.Variants, record.Variant{Name: name})
		var text strings.Builder
		setup := map[string]json.Number{}
		for line := range strings.SplitSeq(lines, "\n") {
			f := append(strings.Fields(line), "", "")
			fmt.Fprintf(&text, "%s\n%[1]s\t%s\t%s ns/op\t0 B/op\t0 allocs/op\n", f[0], f[1], cmp.Or(f[2], "1"))
			if f[3] != "" {
				setup[f[0]] = json.Number(f[3])
			}
		}
		of := filepath.Join(dir, name)
		must(t, os.MkdirAll(of, 0o755))
		must(t, os.WriteFile(filepath.Join(of, "bench.txt"), []byte(text.String()), 0o644))
		must(t, record.WriteJSON(filepath.Join(of, setupFile), setup))
	}
	return Calibrate(plan, dir)
}

type rename = record.Rename

func drop(n int) rename { return rename{Drop: &n} }

// A rule replaces the first match; $1 to $9 are its groups. drop counts elements from 0, the name itself.
func TestRename(t *testing.T) {
	for _, c := range []struct {
		rules []rename
		row   string
	}{
		{[]rename{drop(1)}, "Search/CurrOnly/100"},
		{[]rename{drop(2)}, "Search/Data/100"},
		{[]rename{drop(9)}, "Search/Data/CurrOnly/100"},
		{[]rename{{Match: "/Curr(Only)/(.*)", To: "/$2/$1$1$3"}}, "Search/Data/100/OnlyOnly"},
		{[]rename{{Match: "nothing", To: "x"}}, "Search/Data/CurrOnly/100"},
		{[]rename{{Match: "^BenchmarkSearch", To: "Find"}, drop(1)}, "Find/CurrOnly/100"},
		{[]rename{{Match: "l", To: "L"}}, "Search/Data/CurrOnLy/100"},
	} {
		got, err := calibrated(t, record.GoBench{Rename: c.rules}, "BenchmarkSearch/Data/CurrOnly/100 1 1")
		if err != nil || got.Rows[0].Row != c.row {
			t.Errorf("%v: got %+v, %v, want %s", c.rules, got, err, c.row)
		}
	}
}

// All variants do as many operations as the fastest one. A row runs in turns if all of its set-ups are short.
func TestRowsAndTurns(t *testing.T) {
	got, err := calibrated(t, record.GoBench{},
		"BenchmarkS/x 1000 1000000 0.01\nBenchmarkS/y 1000 1000000 0.3\n"+
			"BenchmarkS/z 1000 1000000\nBenchmarkS/old 1000 1000000 0.01\nBenchmarkS/few 2 500000000 0.01",
		"BenchmarkS/x 1100 900000 0.02\nBenchmarkS/y 1000 1000000 0.01\n"+
			"BenchmarkS/z 1000 1000000 0.01\nBenchmarkS/few 2 500000000 0.01")
	must(t, err)
	var text []string
	for _, r := range got.Rows {
		text = append(text, fmt.Sprintf("%s %d %d %d", r.Row, len(r.Names), r.Count, r.Parts))
	}
	want := "S/x 2 138 8|S/y 2 1000 1|S/z 2 1000 1|S/old 1 1000 1|S/few 2 2 1"
	if got := strings.Join(text, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if math.Abs(got.Rows[0].SetupS-0.02) > 1e-9 || got.Rows[2].SetupS != 0 {
		t.Errorf("set-ups %+v", got.Rows)
	}
}

const keys = "BenchmarkG/series=1/noise=1/batch=1 1\nBenchmarkG/series=1/noise=1/batch=10 10\n" +
	"BenchmarkG/none 1\nBenchmarkG/series=2/noise=1/batch=1 1\nBenchmarkG/series=2/noise=1/batch=10 10"

// Columns are in the order of the output. A row has one number of operations, and only the wanted keys.
func TestPivot(t *testing.T) {
	got, err := calibrated(t, record.GoBench{Pivot: &record.Pivot{Rows: []string{"series"}, Column: "batch"}}, keys)
	must(t, err)
	text := strings.Join(got.Columns, ",")
	for _, r := range got.Rows {
		text += fmt.Sprintf(" %s:%s:%d", r.Cell.Row, r.Cell.Column, r.Count)
	}
	if want := "1,10 G/series=1:1:10 G/series=1:10:10 G/series=2:1:10 G/series=2:10:10"; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// Benchmarks that cannot be compared are refused with a sentence.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		go_      record.GoBench
		variants []string
		want     string
	}{
		{record.GoBench{Pivot: &record.Pivot{Column: "size"}}, []string{keys},
			"gobench.pivot: the names hold fewer than two values of size=, as in G/series=1/noise=1/batch=1"},
		{record.GoBench{Pivot: &record.Pivot{Column: "codec"}}, []string{"BenchmarkX/codec= 1\nBenchmarkX/codec=zstd 1"},
			"gobench.pivot: X/codec= has no value of codec=: give that benchmark a name there"},
		{record.GoBench{Pivot: &record.Pivot{Column: "noise"}}, []string{keys}, "fewer than two values of noise="},
		{record.GoBench{Pivot: &record.Pivot{Rows: []string{"noise"}, Column: "batch"}}, []string{keys},
			"would be one cell: name more keys in gobench.pivot.rows"},
		{record.GoBench{Rename: []rename{drop(1)}}, []string{"BenchmarkW/a 1\nBenchmarkW/b 1"},
			"gobench.rename: BenchmarkW/a and BenchmarkW/b of baseline would both be the row W"},
		{record.GoBench{Rename: []rename{{Match: "(?<=x)"}}}, []string{keys},
			`gobench.rename: "(?<=x)" is no regular expression of Go`},
		{record.GoBench{Pivot: &record.Pivot{Column: "batch"}}, []string{"nothing 1"},
			"the warm-up block found no benchmark: see "},
		{record.GoBench{}, []string{"BenchmarkA 1", "BenchmarkB 1"},
			"no benchmark of candidate has the row of one of baseline (B and A): see gobench.rename"},
	} {
		_, err := calibrated(t, c.go_, c.variants...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// NaN and infinity are no values, since JSON cannot hold them.
func TestWhatIsNoNumberIsNoValue(t *testing.T) {
	text := "BenchmarkX 1 NaN ns/op 5 B/op +Inf rows/op\nrows=NaN\n"
	found := results(text, 1)
	if len(found) != 1 || len(found[0].values) != 1 || found[0].seconds() != 0 {
		t.Errorf("%+v", found)
	}
	for _, r := range []requirement{{what: "rows/op"}, {what: "rows", output: regexp.MustCompile(`rows=(\S+)`)}} {
		if least := r.least(text, found); least != 0 {
			t.Errorf("%s: %g", r.what, least)
		}
	}
}

// Any text can be read, since a benchmark may print anything.
func FuzzResults(f *testing.F) {
	f.Add("BenchmarkX/a=1-8 \t 100\t 123.5 ns/op\t 10.00 MB/s\n" +
		"BenchmarkX\nBenchmarkX/b-8 not a result\nBenchmarkY 1 NaN ns/op 5")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range results(text, 8) {
			if !strings.HasPrefix(r.name, "Benchmark") {
				t.Errorf("%+v", r)
			}
		}
		troubleIn(text)
		lastLine(text)
	})
}
