package workload

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/timescale/tsbs/pkg/query"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

// ownRun writes plan/requests.txt.gz, and returns its run and the job of the type with the key k1.
func ownRun(t *testing.T, requests string) (runDir string, j *job) {
	t.Helper()
	runDir = t.TempDir()
	must(t, os.Mkdir(filepath.Join(runDir, "plan"), 0o755))
	file, err := os.Create(filepath.Join(runDir, "plan", "requests.txt.gz"))
	must(t, err)
	defer file.Close()
	packed := gzip.NewWriter(file)
	_, err = io.WriteString(packed, requests)
	must(t, err)
	must(t, packed.Close())
	query := &record.QueryType{Name: "a", Own: "q.yml:3"}
	return runDir, &job{path: filepath.Join(runDir, "k1.gob"), entries: 5, query: query}
}

// Requests of a type are repeated in their order until there are as many as planned.
func TestOwnRequestsAreReadAsThoseOfTSBS(t *testing.T) {
	runDir, j := ownRun(t, "k1 GET /api/v1/query?query=up&time=1\nk2 GET /x\nk1 GET /api/v1/query?query=down&time=2\n")
	must(t, ownQueries(runDir, j.path, j))
	source, err := exchange.OpenQueries(j.path, 1, "&db=b", false)
	must(t, err)
	defer source.Close()
	var paths []string
	for {
		o, err := source.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, o.String())
	}
	down, up := "GET /api/v1/query?query=down&time=2&db=b", "GET /api/v1/query?query=up&time=1&db=b"
	if got, want := strings.Join(paths, "\n"), strings.Join([]string{down, up, down, up}, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A type without requests is a plan of another run.
func TestATypeWithoutRequestsIsRefused(t *testing.T) {
	runDir, j := ownRun(t, "k2 GET /api/v1/query?query=up\n")
	if err := ownQueries(runDir, j.path, j); err == nil || !strings.Contains(err.Error(), "has no requests of a") {
		t.Error(err)
	}
}

// BenchmarkOwnQueries says by how much reading a user's request takes longer than reading one of TSBS's.
func BenchmarkOwnQueries(b *testing.B) {
	dir := b.TempDir()
	read := func(name, request string) float64 {
		const count = 20_000
		path := filepath.Join(dir, name)
		_, err := writeQueries(path, func(k int64) (*query.HTTP, error) {
			if k == count {
				return nil, io.EOF
			}
			return &query.HTTP{HumanLabel: []byte(name), HumanDescription: []byte(name + ": 2025-06-10T00:00:00Z"),
				Method: []byte("GET"), Path: []byte(request)}, nil
		})
		must(b, err)
		source, err := exchange.OpenQueries(path, 0, "", false)
		must(b, err)
		defer source.Close()
		begin := time.Now()
		for range count {
			_, err := source.Next()
			must(b, err)
		}
		return time.Since(begin).Seconds() * 1e6 / count
	}
	var beyond []float64
	for b.Loop() {
		tsbs := read("tsbs", asked("max(max_over_time(cpu_usage_user{hostname='host_5'}[1m])) by (__name__)"))
		own := read("own", asked(`avg by (hostname) (cpu_usage_user{hostname=~"`+strings.Repeat("host_17|", 8)+`"})`))
		beyond = append(beyond, own-tsbs)
	}
	slices.Sort(beyond)
	b.ReportMetric(beyond[len(beyond)/2], "us-beyond")
}
