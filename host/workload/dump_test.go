package workload

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tsduel/host/record"
)

const (
	influxLine = `disk,host=db\ 1\,a\=b,path=C:\\x used=1.5,free=7i 1749513600000000000` + "\n"
	textLine   = `http_requests_total{code="200",path="a b\"}"} 12 1749513600000` + "\n"
	openLine   = `http_requests_total{code="200"} 12 1749513600.5` + "\n"
	jsonLine   = `{"metric":{"__name__":"up","job":"x"},"values":[1,2,3],` +
		`"timestamps":[1749513600000,1749513660000,1749513660000]}` + "\n"
)

// dumped writes a file and reads it as a dump.
func dumped(t *testing.T, content []byte) (*Dump, string, error) {
	t.Helper()
	path, cache := filepath.Join(t.TempDir(), "dump"), t.TempDir()
	must(t, os.WriteFile(path, content, 0o644))
	d, err := ReadDump(t.Context(), path, cache)
	return d, cache, err
}

// linesIn returns the lines that the cache has of a dump.
func linesIn(t *testing.T, cache string, d *Dump) string {
	t.Helper()
	var lines bytes.Buffer
	must(t, unpack(t.Context(), filepath.Join(cache, "workload", d.Key, "data.zst"), &lines))
	return lines.String()
}

func gzipped(text string) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return packed.Bytes()
}

func zstdOf(text string) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll([]byte(text), nil)
}

// Formats are told by their first line, packings by their first bytes.
func TestADumpIsCountedInEveryFormatAndPacking(t *testing.T) {
	for _, c := range []struct {
		text, format     string
		samples, series  int64
		duplicates, late int64
		names            string
	}{
		{influxLine + influxLine, "influx", 4, 2, 2, 0, "disk_free disk_used"},
		{"# TYPE x counter\n\n" + textLine, "exposition", 1, 1, 0, 0, "http_requests_total"},
		{openLine, "exposition", 1, 1, 0, 0, "http_requests_total"},
		{textLine + strings.Replace(textLine, "1749513600000", "1749513500000", 1), "exposition", 2, 1, 0, 1,
			"http_requests_total"},
		{jsonLine, "json", 3, 1, 1, 0, "up"},
	} {
		var first *Dump
		for _, content := range [][]byte{[]byte(c.text), gzipped(c.text), zstdOf(c.text)} {
			d, cache, err := dumped(t, content)
			if err != nil {
				t.Fatalf("%s: %v", c.format, err)
			}
			if d.Format != c.format || d.Samples != c.samples || d.Series != c.series || d.Duplicates != c.duplicates ||
				d.Late != c.late || strings.Join(d.Names, " ") != c.names {
				t.Errorf("%q: %+v", c.text, d)
			}
			if first == nil {
				first = d
			}
			// Lines in zstd are kept as they are packed.
			if isZstd := bytes.HasPrefix(content, []byte{0x28, 0xb5}); d.Key != first.Key && (!isZstd || c.text[0] == '#') {
				t.Errorf("%s: the key is %s, packed otherwise %s", c.format, d.Key, first.Key)
			}
			j := &job{path: filepath.Join(cache, "workload", d.Key, "data.zst"), entries: d.Lines}
			if good, err := j.isGood(); !good || err != nil {
				t.Errorf("%s: what is in the cache is not good: %v", c.format, err)
			}
		}
	}
}

// A file of zstd is kept as it is, unless it has more than lines: comments, other ends of lines, no end of the last.
// Lines reach the database as they were written, their escaped characters too.
func TestWhatIsKeptOfAFileOfZstdAreItsLines(t *testing.T) {
	for text, same := range map[string]bool{influxLine: true, textLine + textLine: true, "# EOF\n" + textLine: false,
		textLine + "\n": false, strings.Replace(textLine, "\n", "\r\n", 1): false, strings.TrimSpace(textLine): false} {
		content := zstdOf(text)
		d, cache, err := dumped(t, content)
		must(t, err)
		kept, err := os.ReadFile(filepath.Join(cache, "workload", d.Key, "data.zst"))
		if err != nil || bytes.Equal(kept, content) != same {
			t.Errorf("%q: kept as it is: %v, %v", text, !same, err)
		}
		if lines := linesIn(t, cache, d); lines != influxLine && strings.ReplaceAll(lines, textLine, "") != "" {
			t.Errorf("%q became %q", text, lines)
		}
	}
}

func TestABadDumpIsRefusedWithItsLine(t *testing.T) {
	var many strings.Builder
	for n := range 20_000 {
		fmt.Fprintf(&many, "disk,host=h%d used=%d 1749513600000000000\n", n*n%977, n*n)
	}
	packed := gzipped(many.String())
	for want, content := range map[string][]byte{
		":3: broken line (influx)":     []byte(influxLine + influxLine + "disk,host= \n"),
		":2: broken line (exposition)": []byte(textLine + "http_requests_total{code=\n"),
		":2: broken line (json)":       []byte(jsonLine + `{"metric":{"__name__":"up"},"val`),
		"it has no timestamp":          []byte("disk,host=a used=1\n"),
		":1: it is no line of Influx":  []byte("hello, world\n"),
		"it has no samples":            {},
		"it has no samples; ":          []byte("# HELP x y\n"),
		"it breaks off after line":     packed[:len(packed)*3/4],
		"it is damaged":                {0x1f, 0x8b, 0, 0},
	} {
		if _, cache, err := dumped(t, content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		} else if left, _ := filepath.Glob(filepath.Join(cache, "workload", "*")); len(left) > 0 {
			t.Errorf("%s: %s is left", want, slices.Sorted(slices.Values(left)))
		}
	}
}

// A program that still writes the file appends to it while it is read.
func TestADumpThatGrowsWhileItIsReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump")
	must(t, os.WriteFile(path, bytes.Repeat([]byte(influxLine), 30_000), 0o644))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = file.WriteString(influxLine)
			}
		}
	}()
	_, err := ReadDump(t.Context(), path, t.TempDir())
	close(stop)
	<-stopped
	if err == nil || !strings.Contains(err.Error(), "it has changed while it was read") {
		t.Errorf("%v", err)
	}
}

// The same lines, a window later each time, until there are as many as planned.
func TestTheUsersLinesContinueTheDataLater(t *testing.T) {
	first := strings.Replace(influxLine, "9513600", "9513700", 1)
	d, cache, err := dumped(t, []byte(influxLine+first))
	must(t, err)
	start := time.Unix(1749513600, 0)
	work := record.WorkloadPlan{OwnData: &record.OwnData{Path: "x"}, Start: start, End: start.Add(101 * time.Second)}
	plan := &record.Plan{Workload: &work}
	var moved bytes.Buffer
	j := &job{plan: plan, format: d.Format, entries: 5}
	must(t, later(t.Context(), filepath.Join(cache, "workload", d.Key, "data.zst"), j, &moved))
	var times []string
	for line := range strings.Lines(moved.String()) {
		series, at, _ := strings.Cut(strings.TrimSpace(line), " 1749")
		if !strings.HasPrefix(influxLine, series) {
			t.Errorf("got %s", line)
		}
		times = append(times, strings.TrimSuffix(at, "000000000"))
	}
	if want := "513701 513801 513802 513902 513903"; strings.Join(times, " ") != want {
		t.Errorf("got %s, wanted %s", times, want)
	}
}

// Any bytes are data, which are read back the same from the cache, or a sentence with the file's name.
func FuzzAnyBytesAreDataOrASentence(f *testing.F) {
	for _, text := range []string{influxLine, textLine, openLine, jsonLine, "# DDL\nCREATE DATABASE x\n" + influxLine,
		"a b=nan 1749513600\n", "a b=\"c\nd\" 1\n", "\xef\xbb\xbf" + influxLine, "\xff\xfea\x00", "BZh91AY", "\x1f\x8b"} {
		f.Add([]byte(text))
	}
	f.Add(zstdOf(influxLine))
	f.Add(gzipped(jsonLine))
	f.Fuzz(func(t *testing.T, content []byte) {
		d, cache, err := dumped(t, content)
		if err != nil {
			if !strings.Contains(err.Error(), "dump") || strings.ContainsRune(err.Error(), 0) {
				t.Errorf("%q", err)
			}
			return
		}
		again, _, err := dumped(t, []byte(linesIn(t, cache, d)))
		if err != nil || again.Key != d.Key || again.Samples != d.Samples || again.Series != d.Series ||
			again.Start != d.Start || again.End != d.End {
			t.Errorf("%v: %+v and %+v", err, d, again)
		}
	})
}
