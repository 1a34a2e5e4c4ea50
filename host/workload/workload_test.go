package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/timescale/tsbs/pkg/query"

	"tsduel/host/record"
)

const lines = 2340 // what the fake writes for four hosts

// fixture is a run with the fake generators of tests/fakes. calls counts their calls since its last call.
func fixture(t *testing.T) (spec record.Spec, calls func() int) {
	t.Helper()
	root := t.TempDir()
	fakes, err := filepath.Abs("../../tests/fakes")
	must(t, err)
	log := filepath.Join(root, "log")
	t.Setenv("FAKE_LOG", log)
	spec = record.Spec{RunDir: filepath.Join(root, "a run"), Cache: filepath.Join(root, "a cache"),
		Builds: &record.Builds{TSBSBin: fakes}}
	spec.Raw = filepath.Join(spec.RunDir, "raw")
	spec.Scratch, spec.Events = filepath.Join(spec.Cache, "scratch"), record.NewEvents(spec.RunDir, spec.Raw, true)
	must(t, os.MkdirAll(spec.Raw, 0o755))
	must(t, os.MkdirAll(spec.Scratch, 0o755))
	start := time.Date(2025, 6, 10, 0, 0, 0, 0, time.UTC)
	spec.Plan = &record.Plan{Workload: &record.WorkloadPlan{UseCase: "cpu-only", Scale: 4, Start: start,
		End: start.Add(13 * time.Hour), Interval: "80s", IntervalS: 80,
		Seed: 8428, Lines: lines, Samples: lines * 10, EstimatedBytes: 4000}}
	spec.Plan.Workload.Data = append(spec.Plan.Workload.Data, struct {
		Format string `json:"format"`
		Key    string `json:"key"`
	}{"victoriametrics", "0123456789abcdef"})
	spec.Plan.Queries = record.Queries{MaxCount: 50, Types: []record.QueryType{
		{Name: "cpu-max-all-1", Seed: 8435, Keys: map[string]string{"victoriametrics": "c0"}},
		{Name: "single-groupby-1-1-1", Seed: 8436, Keys: map[string]string{"victoriametrics": "50"}}}}
	return spec, func() int {
		text, _ := os.ReadFile(log)
		os.Remove(log)
		return strings.Count(string(text), "\n")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCalls(t *testing.T, calls func() int, want int) {
	t.Helper()
	if got := calls(); got != want {
		t.Errorf("%d calls of a generator and not %d", got, want)
	}
}

func TestEveryFileIsMadeOnceAndOnRecord(t *testing.T) {
	spec, calls := fixture(t)
	made, err := Make(t.Context(), spec)
	must(t, err)
	wantCalls(t, calls, 3)
	data, _ := made.DataFor("victoriametrics")
	feed, err := os.ReadFile(data.FeedPath)
	must(t, err)
	if data.Lines != lines || data.Samples != lines*10 || strings.Count(string(feed), "\n") != lines ||
		!strings.HasPrefix(data.FeedPath, spec.Scratch) {
		t.Errorf("%+v", data)
	}
	sum, size, err := sumOf(data.Path)
	if err != nil || sum != data.SHA256 || size != data.Bytes {
		t.Errorf("%+v: %s %d %v", data, sum, size, err)
	}
	queries, err := made.QueriesFor(record.Target{QueryFormat: "victoriametrics"}, "cpu-max-all-1")
	must(t, err)
	text, err := os.ReadFile(queries.Path)
	if must(t, err); queries.Count != 50 || strings.Count(string(text), "seed=8435") != 50 {
		t.Errorf("%+v\n%s", queries, text)
	}
	on := &record.Workload{}
	must(t, record.ReadJSON(filepath.Join(spec.Raw, "workload.json"), on))
	if !same(on, made) || on.Data[0].ContentChecksum == "" {
		t.Errorf("raw/workload.json: %+v", on)
	}
	// The zstd command prints the same checksum of the content.
	if zstd, err := exec.LookPath("zstd"); err == nil {
		said, err := exec.Command(zstd, "-lv", data.Path).CombinedOutput()
		if must(t, err); !strings.Contains(string(said), data.ContentChecksum) {
			t.Errorf("%s is not in %s", data.ContentChecksum, said)
		}
	}
	_, err = Make(t.Context(), spec)
	must(t, err)
	wantCalls(t, calls, 0)
	for name, damage := range map[string]func(path string) error{
		"cut short":        func(path string) error { return os.Truncate(path, 10) },
		"gone":             os.Remove,
		"without a record": func(path string) error { return os.Remove(path + ".json") },
		"with half a one":  func(path string) error { return os.Truncate(path+".json", 10) },
		"changed":          func(path string) error { return os.WriteFile(path, make([]byte, queries.Bytes), 0o644) },
	} {
		must(t, damage(queries.Path))
		_, err := Make(t.Context(), spec)
		must(t, err)
		if got := calls(); got != 1 {
			t.Errorf("a file that is %s: %d calls", name, got)
		}
	}
	// The same run with other data.
	spec.Plan.Queries.Types[0].Keys["victoriametrics"] = "c1"
	spec.Plan.Queries.Types[0].Seed = 9
	_, err = Make(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "are not those of this run's first blocks") {
		t.Error(err)
	}
}

func TestGeneratorsAreNotTakenAtTheirWord(t *testing.T) {
	for _, c := range []struct {
		fault, want string
		code        int
	}{
		{"FAKE_DATA_FAULT=error", "tsbs_generate_data wrote 1 lines instead of 2340 (exit code 0): " +
			"invalid use case specified: 'nope'; nothing was kept", 3},
		{"FAKE_DATA_FAULT=short", "tsbs_generate_data wrote 6 lines instead of 2340 (exit code 0); nothing was kept", 3},
		{"FAKE_DATA_FAULT=exit", "(exit code 7); nothing was kept", 3},
		{"FAKE_QUERIES_FAULT=short", "tsbs_generate_queries made 49 queries of cpu-max-all-1 instead of 50 " +
			"(exit code 0); nothing was kept", 3},
		{"type=lastpoint", "queries.types: tsbs_generate_queries makes no lastpoint for cpu-only: " +
			"LastPointPerHost not supported in PromQL", 2},
		{"type=nonsense", "makes no nonsense for cpu-only: invalid query type for use case 'cpu-only': 'nonsense'", 2},
	} {
		t.Run(c.fault, func(t *testing.T) {
			spec, _ := fixture(t)
			if name, value, _ := strings.Cut(c.fault, "="); name == "type" {
				spec.Plan.Queries.Types[0].Name = value
			} else {
				t.Setenv(name, value)
			}
			_, err := Make(t.Context(), spec)
			if stop, ok := err.(*record.Stop); !ok || stop.Code != c.code || !strings.Contains(stop.Message, c.want) {
				t.Errorf("%#v", err)
			}
			left, _ := filepath.Glob(filepath.Join(spec.Cache, "workload/*/*.new"))
			data, _ := filepath.Glob(filepath.Join(spec.Cache, "workload/*/data.zst"))
			if len(left) > 0 || len(data) > 0 && strings.HasPrefix(c.fault, "FAKE_DATA") {
				t.Errorf("something was kept: %v %v", data, left)
			}
		})
	}
}

func TestAnInterruptionLeavesNothingHalf(t *testing.T) {
	for _, c := range []struct {
		fault, begun string
		left         int // files still to be made
	}{{"FAKE_DATA_FAULT", "data ", 3}, {"FAKE_QUERIES_FAULT", "queries ", 2}} {
		spec, calls := fixture(t)
		t.Setenv(c.fault, "hang")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for text := ""; !strings.Contains("\n"+text, "\n"+c.begun); time.Sleep(10 * time.Millisecond) {
				all, _ := os.ReadFile(os.Getenv("FAKE_LOG"))
				text = string(all)
			}
			cancel()
		}()
		if _, err := Make(ctx, spec); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", c.fault, err)
		}
		os.Unsetenv(c.fault)
		calls()
		_, err := Make(t.Context(), spec)
		must(t, err)
		wantCalls(t, calls, c.left)
	}
}

func TestTooLittleDiskIsSaidBeforeTheFirstByte(t *testing.T) {
	spec, calls := fixture(t)
	spec.Plan.Workload.EstimatedBytes = 1 << 60
	_, err := Make(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(),
		"too little disk for the data and query files: about 1099511627777 MiB are needed and ") {
		t.Error(err)
	}
	wantCalls(t, calls, 0)
}

func TestWindow(t *testing.T) {
	day := time.Date(2025, 6, 10, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		scale int64
		want  int
	}{{100, 1 << 20}, {4000, 1 << 21}, {100_000, 1 << 26}, {4_000_000, 1 << 27}} {
		plan := &record.WorkloadPlan{Start: day, End: day.Add(24 * time.Hour), IntervalS: 80, Lines: c.scale * 1080}
		if got := window(plan, "victoriametrics"); got != c.want {
			t.Errorf("%d hosts: a window of %d and not %d", c.scale, got, c.want)
		}
	}
}

// BenchmarkData makes the data of a run that is planned and built, as data.zst in WORK: RUN_DIR=DIRECTORY
// WORK=DIRECTORY go test -bench Data ./workload
func BenchmarkData(b *testing.B) {
	runDir := os.Getenv("RUN_DIR")
	if runDir == "" {
		b.Skip("RUN_DIR is not set")
	}
	plan, err := record.LoadPlan(runDir)
	must(b, err)
	builds, err := record.LoadBuilds(runDir, plan)
	must(b, err)
	spec := record.Spec{Plan: plan, Builds: builds, Scratch: b.TempDir(), Events: record.NewEvents(b.TempDir(), "", true)}
	j := &job{plan: plan, path: filepath.Join(os.Getenv("WORK"), "data.zst"), format: plan.Workload.Data[0].Format,
		start: plan.Workload.Start, end: plan.Workload.End, entries: plan.Workload.Lines}
	for b.Loop() {
		must(b, makeData(b.Context(), spec, j))
	}
}

func TestDifferentDatabasesAreAskedForTheSameHostsAndWindows(t *testing.T) {
	start := time.Date(2025, 6, 10, 0, 0, 10, 0, time.UTC)
	plan := &record.WorkloadPlan{Scale: 20, Start: start, End: start.Add(24 * time.Hour)}
	ask := func(k uint64, path string) (url.Values, string) {
		q := query.HTTP{HumanLabel: []byte("label"), Path: []byte(path)}
		must(t, askAlike(&q, plan, rand.New(rand.NewPCG(7, k))))
		u, err := url.Parse(string(q.Path))
		must(t, err)
		return u.Query(), string(q.HumanDescription)
	}
	promQL := "/api/v1/query_range?" + url.Values{
		"query": {"max(max_over_time(cpu_usage_user{hostname=~'host_3|host_5'}[1h])) by (__name__)"},
		"start": {"1749550001"}, "end": {"1749578801"}, "step": {"3600"}}.Encode()
	influxQL := "/query?" + url.Values{"q": {"SELECT max(usage_user) from cpu where (hostname = 'host_11' or " +
		"hostname = 'host_2') and time >= '2025-06-10T03:04:05Z' and " +
		"time < '2025-06-10T11:04:05Z' group by time(1h)"}}.Encode()
	hosts := regexp.MustCompile(`host_\d+`)
	seen := map[string]bool{}
	for k := range uint64(200) {
		a, when := ask(k, promQL)
		b, other := ask(k, influxQL)
		x, y := hosts.FindAllString(a.Get("query"), -1), hosts.FindAllString(b.Get("q"), -1)
		if !slices.Equal(x, y) || len(x) != 2 || x[0] == x[1] || when != other {
			t.Fatalf("%d: hosts %v and %v, %s and %s", k, x, y, when, other)
		}
		first, _ := strconv.ParseInt(a.Get("start"), 10, 64)
		last, _ := strconv.ParseInt(a.Get("end"), 10, 64)
		begin, end := time.Unix(first-3600, 0).UTC(), time.Unix(last, 0).UTC()
		want := fmt.Sprintf("time >= '%s' and time < '%s' group by time(1h,%dm)", begin.Format(time.RFC3339),
			end.Format(time.RFC3339), begin.Minute())
		if begin.Minute() == 0 {
			want = strings.Replace(want, ",0m", "", 1)
		}
		if end.Sub(begin) != 8*time.Hour || begin.Second() != 0 || begin.Before(start) || end.After(plan.End) ||
			!strings.Contains(b.Get("q"), want) {
			t.Fatalf("%d: %s to %s, and %s", k, begin, end, b.Get("q"))
		}
		seen[when+x[0]] = true
	}
	if len(seen) < 190 {
		t.Errorf("only %d of 200 questions are different", len(seen))
	}
	const last = `SELECT * from cpu group by "hostname" order by time desc limit 1`
	if asked, _ := ask(1, "/query?"+url.Values{"q": {last}}.Encode()); asked.Get("q") != last {
		t.Errorf("what has no window and no host is %s", asked.Get("q"))
	}
}
