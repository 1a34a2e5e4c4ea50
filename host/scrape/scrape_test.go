package scrape

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsduel/host/bound"
	"tsduel/host/proc"
	"tsduel/host/record"
)

const exposition = `# HELP vm_rows a
# TYPE vm_rows gauge
vm_rows{type="storage/small"} 5
vm_rows{type="storage/big",other="x y}"} 1.5e3
vm_rows{type="indexdb/file"} 100
vm_rows_total 7
vm_rows_read_per_query_sum 12
vm_rows_read_per_query_bucket{vmrange="1...2"} 3
vm_nan NaN
vm_large 1.002992e+06
`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// summed is a counter with its sum; it is not found if that is NaN.
type summed struct {
	name, role string
	labels     map[string]string
	want       float64
}

func wantSums(t *testing.T, text []byte, all []summed) {
	t.Helper()
	for _, c := range all {
		sum, found, err := Sum(text, record.Counter{Name: c.name, Role: c.role, Labels: c.labels})
		if found == math.IsNaN(c.want) || found && sum != c.want || err != nil {
			t.Errorf("%+v: %v %v %v", c, sum, found, err)
		}
	}
}

var none = math.NaN()

func TestSum(t *testing.T) {
	storage := map[string]string{"type": "storage/.*"}
	wantSums(t, []byte(exposition), []summed{
		{"vm_rows", "", nil, 1605},
		{"vm_rows", "", storage, 1505},
		{"vm_rows", "", map[string]string{"type": "storage"}, none}, // in full
		{"vm_rows", "", map[string]string{"type": "storage/.*", "other": ""}, 5},
		{"vm_rows|vm_rows_total", "", nil, 1612},
		{"vm_rows_read_per_query_sum", "", nil, 12},
		{"vm_nan", "", nil, none},
		{"vm_large", "", nil, 1_002_992}, // exactly: it is compared with what was sent
		{"vm", "", nil, none},
	})
	for text, counter := range map[string]record.Counter{"vm_rows{ 5\n": {Name: "vm_rows"},
		"vm_rows 5\n": {Name: "vm_rows", Labels: map[string]string{"vm_rows": "("}}} {
		if _, _, err := Sum([]byte(text), counter); err == nil || !strings.Contains(err.Error(), "vm_rows") {
			t.Error(err)
		}
	}
}

// What exporters write is read exactly, with the label of a component, too.
func TestExporters(t *testing.T) {
	text, err := os.ReadFile("../../tests/data/exposition.json")
	must(t, err)
	var cases []struct {
		Exporter, Text string
		Sums           []struct {
			Name   string
			Labels map[string]string
			Sum    *float64
		}
	}
	must(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		for _, role := range []string{"", "server"} {
			body := []byte(c.Text)
			if role != "" {
				body = OfRole(role, body)
			}
			for _, one := range c.Sums {
				want := none
				if one.Sum != nil {
					want = *one.Sum
				}
				t.Log(c.Exporter)
				wantSums(t, body, []summed{{one.Name, role, one.Labels, want}})
			}
		}
	}
}

// Each is the server's fault, and no number is read of it: what stands last may be a time.
func TestLinesThatAreNoSamples(t *testing.T) {
	for _, line := range []string{"a_total 5 later", "a_total 5 6 7", `a_total{x="1} 5`, "a_total{x=1} 5", "a_total x",
		strings.Repeat("a_total 1\n", samplesMost+1), "a_total{x=\"1\"} 1.7e308\na_total{x=\"2\"} 1.7e308"} {
		_, _, err := Sum([]byte("b 1\n"+line+"\n"), record.Counter{Name: "a_total"})
		if _, theirs := errors.AsType[bound.Theirs](err); !theirs {
			t.Errorf("%.40q: %v", line, err)
		}
	}
}

// A server cannot write in the name of the host: no snapshots, no counters of the kernel.
func TestWhatOnlyTheHostMaySay(t *testing.T) {
	const forged = "a 1\n# snapshot 9 edge load end\ntsduel_process_cpu_seconds_total{role=\"server\"} 0\n" +
		"\ttsduel_x 1\nb 2"
	const kept = "a{tsduel_role=\"server\"} 1\nb{tsduel_role=\"server\"} 2"
	if text := string(OfRole("server", []byte(forged))); text != kept {
		t.Errorf("%q", text)
	}
}

// A body comes whole, an error quotes the answer, and a reset connection is tried again.
func TestFetch(t *testing.T) {
	var resets atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/bad":
			http.Error(w, "no\x1b[31m such\nthing", http.StatusUnprocessableEntity)
		case resets.Add(1) <= 2:
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, exposition)
		}
	}))
	server.Config.ErrorLog = nil
	defer server.Close()
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	if body, err := Fetch(t.Context(), server.URL); err != nil || string(body) != exposition {
		t.Errorf("%q %v", body, err)
	}
	if _, err := Fetch(t.Context(), server.URL+"/bad"); err == nil ||
		!strings.HasSuffix(err.Error(), "/bad: HTTP status 422: no [31m such thing") {
		t.Error(err)
	}
}

// The file has full snapshots at edges, and short ones each second. At an end the counters are fresh.
func TestSnapshots(t *testing.T) {
	asked, times := 0, []time.Time{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked, times = asked+1, append(times, time.Now())
		_, _ = fmt.Fprintf(w, "vm_rows{type=\"a\"} %d\nvm_other 1\n", asked)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "metrics.prom.gz")
	s, err := Create(path, "^vm_rows$")
	must(t, err)
	counters := func(ctx context.Context) ([]byte, error) { return Fetch(ctx, server.URL) }
	of := func(pid int) func() (proc.Counters, error) {
		return func() (proc.Counters, error) { return proc.Read(pid) }
	}
	slow := func(context.Context) ([]byte, error) { return []byte("vm_rows{type=\"slow\"} 1"), nil }
	s.Sources = []Source{{Role: "server", Kernel: of(os.Getpid()), Counters: counters},
		{Role: "quiet", Kernel: of(1 << 30), Counters: slow, Slow: true}}
	_, err = s.Edge(t.Context(), "load", "begin", "")
	must(t, err)
	seen := make(chan string, 9)
	stop := s.Ticks(t.Context(), func(kept []byte) { seen <- string(kept) })
	if kept := <-seen; kept != "vm_rows{type=\"a\"} 2\n" {
		t.Errorf("%q", kept)
	}
	stop()
	if body, err := s.Edge(t.Context(), "query", "end", "cpu-max-all-1"); err != nil ||
		!strings.Contains(string(body), "vm_other 1") {
		t.Errorf("%q %v", body, err)
	}
	if waited := times[asked-1].Sub(times[asked-2]); waited < time.Second {
		t.Errorf("the end was asked %v after a tick, whose answer is cached for a second", waited)
	}
	// Without one of its sources nothing is known of an edge: the others' sums would be too small.
	s.Sources[1].Counters = func(context.Context) ([]byte, error) { return nil, io.ErrUnexpectedEOF }
	if body, err := s.Edge(t.Context(), "stop", "begin", ""); body != nil || err != nil {
		t.Errorf("%q %v", body, err)
	}
	must(t, s.Close())
	file, _ := os.Open(path)
	unpack, err := gzip.NewReader(file)
	must(t, err)
	text, err := io.ReadAll(unpack)
	must(t, err)
	var heads []string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); words[0] == "#" {
			heads = append(heads, strings.Join(words[3:], " "))
		}
	}
	ticks := strings.Count(strings.Join(heads, ", "), "tick, ") // on a slow machine a second one comes before the stop
	want := "edge load begin, " + strings.Repeat("tick, ", max(1, ticks)) + "edge query end cpu-max-all-1, edge stop begin"
	if strings.Join(heads, ", ") != want {
		t.Error(heads)
	}
	const kernels = `tsduel_process_cpu_seconds_total{mode="user",role="server"} `
	if count := strings.Count(string(text), kernels); count != 3+ticks || strings.Count(string(text), "vm_other") != 2 ||
		strings.Contains(string(text), `role="quiet"`) {
		t.Errorf("%s", text)
	}
}

// Several components may have counters of the same name. A counter with a role is of one component.
func TestOfRole(t *testing.T) {
	both := append(OfRole("server", []byte(exposition)),
		OfRole("vm.auth", []byte("vm_rows{type=\"storage/small\"} 7\nvm_plain 1\n"))...)
	wantSums(t, both, []summed{{"vm_rows", "", nil, 1612}, {"vm_rows", "server", nil, 1605},
		{"vm_rows", "vm.auth", map[string]string{"type": ".*"}, 7}, {"vm_plain", "vm.auth", nil, 1},
		{"vm_plain", "vmxauth", nil, none}})
	const marked = "# HELP a b\n\na{tsduel_role=\"server\"} 1\n"
	if text := string(OfRole("server", []byte("# HELP a b\n\na 1\n"))); text != marked {
		t.Errorf("%q", text)
	}
}
