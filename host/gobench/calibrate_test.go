package gobench

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsduel/host/record"
)

// calibrated calibrates what variants have printed: lines of NAME COUNT [NS/OP [SET-UP SECONDS]], by variant in order.
func calibrated(t *testing.T, g record.GoBench, variants ...string) (*record.Calibration, error) {
	t.Helper()
	one := 1
	g.CPU = &one
	plan, dir := &record.Plan{GoBench: &g}, t.TempDir()
	for i, lines := range variants {
		name := []string{"baseline", "candidate", "third"}[i]
		plan.Variants = append(plan.Variants, record.Variant{Name: name})
		var text, setup strings.Builder
		for line := range strings.SplitSeq(lines, "\n") {
			f := append(strings.Fields(line), "", "")
			fmt.Fprintf(&text, "%s\t%s\t%s ns/op\n", f[0], f[1], cmp.Or(f[2], "1"))
			if f[3] != "" {
				fmt.Fprintf(&setup, "%s\t%s\n", f[0], f[3])
			}
		}
		of := filepath.Join(dir, name)
		if err := os.MkdirAll(of, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{"bench.txt": text.String(), setupFile: setup.String()} {
			if err := os.WriteFile(filepath.Join(of, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return Calibrate(plan, dir)
}

type rename = struct {
	Match string `json:"match"`
	To    string `json:"to"`
	Drop  *int   `json:"drop"`
}

func drop(n int) rename { return rename{Drop: &n} }

// The first match is exchanged, $1 to $9 stand for its groups; drop counts from the first element below.
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

// Every variant does as many operations as the one that does most in the time; a row is split into turns where all set-ups are short.
func TestRowsAndTurns(t *testing.T) {
	got, err := calibrated(t, record.GoBench{},
		"BenchmarkS/x 1000 1000000 0.01\nBenchmarkS/y 1000 1000000 0.3\nBenchmarkS/z 1000 1000000\nBenchmarkS/old 1000 1000000 0.01\nBenchmarkS/few 2 500000000 0.01",
		"BenchmarkS/x 1100 900000 0.02\nBenchmarkS/y 1000 1000000 0.01\nBenchmarkS/z 1000 1000000 0.01\nBenchmarkS/few 2 500000000 0.01")
	if err != nil {
		t.Fatal(err)
	}
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

const keys = "BenchmarkG/series=1/noise=1/batch=1 1\nBenchmarkG/series=1/noise=1/batch=10 10\nBenchmarkG/none 1\nBenchmarkG/series=2/noise=1/batch=1 1\nBenchmarkG/series=2/noise=1/batch=10 10"

type pivots = struct {
	Rows   []string `json:"rows"`
	Column string   `json:"column"`
}

// Columns in the order they were printed; one number of operations a row; only the keys that are asked for.
func TestPivot(t *testing.T) {
	got, err := calibrated(t, record.GoBench{Pivot: &pivots{[]string{"series"}, "batch"}}, keys)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(got.Columns, ",")
	for _, r := range got.Rows {
		text += fmt.Sprintf(" %s:%s:%d", r.Cell.Row, r.Cell.Column, r.Count)
	}
	if want := "1,10 G/series=1:1:10 G/series=1:10:10 G/series=2:1:10 G/series=2:10:10"; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// What cannot be compared is refused in a sentence, before anything is measured.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		go_      record.GoBench
		variants []string
		want     string
	}{
		{record.GoBench{Pivot: &pivots{nil, "size"}}, []string{keys}, "gobench.pivot: the names hold fewer than two values of size=, as in G/series=1/noise=1/batch=1"},
		{record.GoBench{Pivot: &pivots{nil, "noise"}}, []string{keys}, "fewer than two values of noise="},
		{record.GoBench{Pivot: &pivots{[]string{"noise"}, "batch"}}, []string{keys}, "would be one cell: name more keys in gobench.pivot.rows"},
		{record.GoBench{Rename: []rename{drop(1)}}, []string{"BenchmarkW/a 1\nBenchmarkW/b 1"}, "gobench.rename: BenchmarkW/a and BenchmarkW/b of baseline would both be the row W"},
		{record.GoBench{Rename: []rename{{Match: "(?<=x)"}}}, []string{keys}, `gobench.rename: "(?<=x)" is no regular expression of Go`},
		{record.GoBench{Pivot: &pivots{nil, "batch"}}, []string{"nothing 1"}, "the warm-up block found no benchmark: see "},
		{record.GoBench{}, []string{"BenchmarkA 1", "BenchmarkB 1"}, "no benchmark of candidate has the row of one of baseline (B and A): see gobench.rename"},
	} {
		_, err := calibrated(t, c.go_, c.variants...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// What was divided by nothing is no value: JSON has no such number, and the block could not be written.
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

// Any text can be read: a benchmark prints what it likes.
func FuzzResults(f *testing.F) {
	f.Add("BenchmarkX/a=1-8 \t 100\t 123.5 ns/op\t 10.00 MB/s\nBenchmarkX\nBenchmarkX/b-8 not a result\nBenchmarkY 1 NaN ns/op 5")
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
