package scrape

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSum(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels map[string]string
		want   float64
		found  bool
	}{
		{"vm_rows", nil, 1605, true},
		{"vm_rows", map[string]string{"type": "storage/.*"}, 1505, true},
		{"vm_rows", map[string]string{"type": "storage"}, 0, false}, // in full
		{"vm_rows", map[string]string{"type": "storage/.*", "other": ""}, 5, true},
		{"vm_rows_read_per_query_sum", nil, 12, true},
		{"vm_nan", nil, 0, false},
		{"vm", nil, 0, false},
	} {
		sum, found, err := Sum([]byte(exposition), record.Counter{Name: c.name, Labels: c.labels})
		if sum != c.want || found != c.found || err != nil {
			t.Errorf("%s %v: %v %v %v", c.name, c.labels, sum, found, err)
		}
	}
	if _, _, err := Sum([]byte("vm_rows{ 5\n"), record.Counter{Name: "vm_rows"}); err == nil ||
		!strings.Contains(err.Error(), "vm_rows") {
		t.Error(err)
	}
}

// A body comes whole, an error quotes the answer, and a reset connection is tried again.
func TestFetch(t *testing.T) {
	resets := 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/bad":
			http.Error(w, "no\x1b[31m such\nthing", http.StatusUnprocessableEntity)
		case resets > 0:
			resets--
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
	want := "edge load begin, " + strings.Repeat("tick, ", max(1, ticks)) + "edge query end cpu-max-all-1"
	if strings.Join(heads, ", ") != want {
		t.Error(heads)
	}
	const kernels = `tsduel_process_cpu_seconds_total{mode="user",role="server"} `
	if count := strings.Count(string(text), kernels); count != 2+ticks || strings.Count(string(text), "vm_other") != 2 ||
		strings.Contains(string(text), `role="quiet"`) {
		t.Errorf("%s", text)
	}
}

// Several components may have counters of the same name. A counter with a role is of one component.
func TestOfRole(t *testing.T) {
	both := append(OfRole("server", []byte(exposition)),
		OfRole("vm.auth", []byte("vm_rows{type=\"storage/small\"} 7\nvm_plain 1\n"))...)
	for _, c := range []struct {
		name, role string
		want       float64
		found      bool
	}{{"vm_rows", "", 1612, true}, {"vm_rows", "server", 1605, true}, {"vm_rows", "vm.auth", 7, true},
		{"vm_plain", "vm.auth", 1, true}, {"vm_plain", "vmxauth", 0, false}} {
		sum, found, err := Sum(both, record.Counter{Name: c.name, Role: c.role, Labels: map[string]string{"type": ".*"}})
		if sum != c.want || found != c.found || err != nil {
			t.Errorf("%s of %q: %v %v %v", c.name, c.role, sum, found, err)
		}
	}
	const marked = "# HELP a b\n\na{tsduel_role=\"server\"} 1\n"
	if text := string(OfRole("server", []byte("# HELP a b\n\na 1\n"))); text != marked {
		t.Errorf("%q", text)
	}
}
