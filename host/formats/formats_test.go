package formats

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsduel/host/record"
)

const (
	escaped = `disk,host=db\ 1\,a\=b,path=C:\\x used=1.5,mode="rw mount",free=7i 1749513600000000000`
	simple  = `cpu,host=a user=1,system=2i 1749513600000`
	text    = `requests_total{code="200",path="a \"b\\c\n}"} 12.5 1749513600000`
	seconds = `requests_total 12.5 1749513600.5`
	traced  = `seconds_bucket{le="+Inf"} 3 1749513600.5 # {trace_id="x}"} 0.67 1749513600.1`
	empty   = `requests_total{code="500"} NaN 1749513600000`
	export  = `{"metric":{"__name__":"up","job":"a \"timestamps\":[b"},"values":[1,null,3],` +
		`"timestamps":[1749513600000,1749513601000,1749513602000]}`
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seen is what a line holds: name, labels and time of each sample.
func seen(t *testing.T, format, line string) (all []string, sink Sink) {
	t.Helper()
	sink.Each = func(s *Sample) error {
		one := s.Metric + "." + s.Field
		for name, value := range s.Labels {
			one += fmt.Sprintf(" %s=%q", name, value)
		}
		all = append(all, fmt.Sprintf("%s %d", one, s.MS))
		return nil
	}
	parse, err := Of(format)
	must(t, err)
	if err := parse(&sink, []byte(line)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return all, sink
}

func TestTheFormatOfALineIsToldAndItsSamplesAreCounted(t *testing.T) {
	for line, want := range map[string]struct {
		format              string
		samples, numberless int64
	}{
		escaped: {"influx", 3, 0}, simple: {"influx", 2, 0}, text: {"exposition", 1, 0}, seconds: {"exposition", 1, 0},
		traced: {"exposition", 1, 0}, empty: {"exposition", 0, 1}, export: {"json", 2, 1}, "hello, world": {"", 0, 0},
	} {
		format := FormatOf([]byte(line))
		if format != want.format {
			t.Errorf("%s: %q", line, format)
		}
		if format == "" {
			continue
		}
		if all, sink := seen(t, format, line); sink.Samples != want.samples || sink.Numberless != want.numberless ||
			len(all) != int(want.samples) {
			t.Errorf("%s: %q, %+v", line, all, sink)
		}
	}
}

// The same series, fields and values, all of them later; what has no number stays as it is.
func TestALineThatIsMovedIsTheSameLater(t *testing.T) {
	coarse := strings.Replace(simple, "600000", "600", 1) // in seconds
	spaced := strings.NewReplacer(":[", ": [", ",17", ", 17").Replace(export)
	for _, line := range []string{escaped, simple, coarse, text, seconds, traced, export, spaced} {
		format := FormatOf([]byte(line))
		moved, err := Moved(nil, []byte(line), format, 7_000)
		must(t, err)
		before, _ := seen(t, format, line)
		after, _ := seen(t, format, string(moved))
		for i := range before {
			name, at, _ := cutLast(before[i])
			var ms int64
			fmt.Sscan(at, &ms)
			if want := fmt.Sprintf("%s %d", name, ms+7_000); after[i] != want {
				t.Errorf("%s\n-> %s: %s, wanted %s", line, moved, after[i], want)
			}
		}
		same, _, _ := cutLast(line)
		if len(after) != len(before) || format == "influx" && !bytes.HasPrefix(moved, []byte(same)) {
			t.Errorf("%s -> %s", line, moved)
		}
	}
}

func cutLast(text string) (before, after string, found bool) {
	at := strings.LastIndexByte(text, ' ')
	return text[:at], text[at+1:], true
}

// An exemplar, which each scrape has anew, makes no series of its own.
func TestAnExemplarIsNoPartOfASeries(t *testing.T) {
	var series []uint64
	parse, _ := Of("exposition")
	sink := Sink{Each: func(s *Sample) error { series = append(series, s.Series); return nil }}
	other, bucket := strings.Replace(traced, "0.67", "0.7", 1), strings.Replace(traced, "+Inf", "1", 1)
	for _, line := range []string{traced, other, bucket} {
		must(t, parse(&sink, []byte(line)))
	}
	if series[0] != series[1] || series[0] == series[2] {
		t.Error(series)
	}
}

func TestOnlyLinesThatTheLoaderOfTSBSCountsRightArePlain(t *testing.T) {
	for line, want := range map[string]int64{simple: 0, escaped: 1, `m f="a,b" 1749513600`: 1, `m  f=1 1749513600`: 1,
		"m f=" + strings.Repeat("1", 60_000) + " 1749513600": 1} {
		if _, sink := seen(t, "influx", line); sink.Escaped != want {
			t.Errorf("%.60s: %d", line, sink.Escaped)
		}
	}
}

// Lines of a series that was read before take a short way; it says the same, also of fields that are new.
func TestAKnownSeriesIsReadAsTheFirstTime(t *testing.T) {
	rest := []string{"user=1,system=2i 1749513600000", "user=1.5 1749513601000",
		"new=7,user=12345678901234567.5 1749513602000", "user=-1e5,idle=t 1749513603000",
		"user=,system=1 1749513604000", "user=1, 1749513604000", "=1 1749513604000", "user 1749513604000",
		"user=x1i 1749513604000", "user=1 now", "user=1 0", "user=1,,b=2 1749513604000", " 1749513604000"}
	for _, field := range rest {
		line := "cpu,host=a,rack=1 " + field
		var first, again []string
		var sink Sink
		into := &first
		sink.Each = func(s *Sample) error {
			var labels []string
			for name, value := range s.Labels {
				labels = append(labels, name+"="+value)
			}
			*into = append(*into, fmt.Sprint(s.Series, s.MS, s.Metric, s.Field, labels))
			return nil
		}
		fresh, _ := Of("influx")
		wrong := fresh(&sink, []byte(line))
		known, _ := Of("influx")
		must(t, known(&Sink{}, []byte("cpu,host=a,rack=1 a=1 1749513600000")))
		into = &again
		if err := known(&sink, []byte(line)); fmt.Sprint(err) != fmt.Sprint(wrong) || !slices.Equal(first, again) {
			t.Errorf("%s: %v %q, then %v %q", line, wrong, first, err, again)
		}
	}
}

// server takes batches, or answers 400 to those that have a word.
func server(t *testing.T, refuses string) (*httptest.Server, func() []string) {
	var mutex sync.Mutex
	var lines []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if refuses != "" && bytes.Contains(body, []byte(refuses)) {
			http.Error(w, "no such line", http.StatusBadRequest)
			return
		}
		mutex.Lock()
		defer mutex.Unlock()
		lines = append(lines, strings.Split(strings.TrimSpace(string(body)), "\n")...)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s, func() []string { mutex.Lock(); defer mutex.Unlock(); return lines }
}

func loadOf(t *testing.T, url string) Load {
	t.Helper()
	var content strings.Builder
	for n := range 95 {
		fmt.Fprintf(&content, "up{n=\"%d\"} %d 1749513600000\n", n, n)
	}
	content.WriteString(empty + "\n")
	dir := t.TempDir()
	file := filepath.Join(dir, "data")
	must(t, os.WriteFile(file, []byte(content.String()), 0o644))
	set := map[string]string{"LOAD_FILE": file, "LOAD_FORMAT": "exposition", "LOAD_PATH": "/in", "DB_WRITE_URL": url,
		"LOAD_RESULTS": filepath.Join(dir, "load.json"), "LOAD_WORKERS": "3", "LOAD_BATCH_SIZE": "10",
		"LOAD_TIMEOUT_S": "20"}
	l, err := LoadOf(func(name string) string { return set[name] })
	must(t, err)
	return l
}

func TestTheLoaderSendsEachLineOnceAndTellsItLikeThoseOfTSBS(t *testing.T) {
	s, got := server(t, "")
	l := loadOf(t, s.URL)
	var out bytes.Buffer
	must(t, l.Run(t.Context(), &out))
	lines := got()
	slices.Sort(lines)
	if len(lines) != 96 || len(slices.Compact(lines)) != 96 {
		t.Errorf("%d lines came", len(lines))
	}
	if said := out.String(); !strings.HasPrefix(said, loadHead) || !strings.Contains(said, "\nloaded 95 metrics in ") ||
		!strings.Contains(said, "\nloaded 96 rows in ") {
		t.Error(said)
	}
	var results struct {
		DurationMillis *int64
		Totals         struct{ MetricRate float64 }
		RunnerConfig   map[string]float64
	}
	written, err := os.ReadFile(l.Results)
	must(t, err)
	err = json.Unmarshal(written, &results)
	if err != nil || results.DurationMillis == nil || results.Totals.MetricRate <= 0 ||
		results.RunnerConfig["reporting-period"] != 250e6 {
		t.Errorf("%s: %v", written, err)
	}
}

func TestABatchThatIsNotTakenEndsTheLoader(t *testing.T) {
	s, _ := server(t, `n="50"`)
	var out bytes.Buffer
	err := loadOf(t, s.URL).Run(t.Context(), &out)
	if err == nil || !strings.Contains(err.Error(), "has not taken a batch of 10 lines: HTTP 400: no such line") {
		t.Error(err)
	}
	if strings.Contains(out.String(), "loaded") {
		t.Error(out.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	if err := loadOf(t, silent.URL).Run(ctx, io.Discard); err == nil {
		t.Error("a loader that is told to end ends well")
	}
}

// A number that the driver writes for the loader is the number that the loader reads.
func TestATimeIsReadAsItWasWritten(t *testing.T) {
	for _, seconds := range []float64{1e6, 1.5, 20, 123456789} {
		l, err := LoadOf(func(name string) string {
			if name == "LOAD_TIMEOUT_S" {
				return record.Decimal(seconds)
			}
			return "3"
		})
		if err != nil || l.Timeout.Seconds() != seconds {
			t.Errorf("%s is read as %v (%v)", record.Decimal(seconds), l.Timeout, err)
		}
	}
}

func TestTheLoaderNeedsItsVariables(t *testing.T) {
	_, err := LoadOf(func(string) string { return "0" })
	if err == nil || !strings.Contains(err.Error(), `LOAD_WORKERS="0" is no number above 0`) {
		t.Error(err)
	}
}

func TestSamplesOfTheFirstLinesAreCounted(t *testing.T) {
	l := loadOf(t, "http://127.0.0.1:1")
	for lines, want := range map[int64]int64{1: 1, 95: 95, 96: 95, 1000: 95} {
		if n, err := Count(l.File, l.Format, lines); err != nil || n != want {
			t.Errorf("%d lines: %d samples, %v", lines, n, err)
		}
	}
}

func TestTheUnitOfATimeIsToldByItsSize(t *testing.T) {
	for at, unit := range map[string]string{"1749513600": "s", "1749513600000": "ms", "1749513600000000": "u",
		"1749513600000000000": "ns"} {
		all, sink := seen(t, "influx", "m f=1 "+at)
		if !slices.Equal(all, []string{"m.f 1749513600000"}) || !slices.Equal(sink.Precisions.Names(), []string{unit}) {
			t.Errorf("%s: %q in %q", at, all, sink.Precisions.Names())
		}
	}
}
