package block

import (
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

func TestMain(m *testing.M) {
	_ = proc.Subreaper()
	// A slow machine only takes longer: no test counts on an answer, or a start, within a second.
	scrape.CacheAge, scrape.Timeout, ratesPatience = time.Millisecond, time.Minute, 5*time.Minute
	idleSample, putOff = 200*time.Millisecond, 200*time.Millisecond
	proc.MostLog = 8 << 20
	machine.TakeCanary = func(string) (*record.Canary, error) {
		return &record.Canary{CPUS: 1, MemoryS: 1, FsyncS: 1}, nil
	}
	// Blocks mostly wait, and each has its own directories and ports: so none may end the processes of another.
	machine.EndAll = func(scratch string) error {
		_, err := proc.EndStrays(scratch)
		return err
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "6")
	// What a server may have of our environment, and what not.
	_, _ = os.Setenv("LC_ALL", "C.UTF-8"), os.Setenv("GOGC", "7")
	code := m.Run()
	proc.Leave()
	os.Exit(code)
}

var endAll = machine.EndAll // which tests that run alone may call

var types = []string{"single-groupby-1-1-1", "cpu-max-all-1"}

const lines48 = 48 // of ten samples

var shortDuel = record.Duel{Enabled: true, Seconds: 0.1, MinExchanges: 8, MaxSeconds: 1, FloorExchanges: 4, InFlight: 1,
	IdleS: 0.05, MostDifferences: 10, Hold: true}

var ports atomic.Int32

// fakes is a project with the real adapters, which log their calls, a fake database and fake commands of TSBS. modes
// are what the databases of the variants do wrong, baseline first.
func fakes(t *testing.T, modes ...string) record.Spec {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts databases")
	}
	root, project := t.TempDir(), must(filepath.Abs("../.."))
	tsbs := filepath.Join(project, "tests", "fakes")
	check(t, os.MkdirAll(filepath.Join(root, "raw", "001.partial"), 0o755),
		os.MkdirAll(filepath.Join(root, "scratch"), 0o755), os.MkdirAll(adapter(root, ""), 0o755))
	real := filepath.Join(project, "scripts", "targets", "victoriametrics")
	for _, e := range must(os.ReadDir(real)) {
		text := fmt.Sprintf("echo %s $DB_ROLE >>%q\nTSDUEL_HOST=%q\n. %q", e.Name(), filepath.Join(root, "calls"),
			filepath.Join(tsbs, "tsduel-host"), filepath.Join(real, e.Name()))
		script(t, adapter(root, e.Name()), text)
	}
	plan := &record.Plan{
		Run: "r", Kind: "tsbs", Targets: map[string]record.Target{"fake": {Name: "fake",
			DataFormat: "f", QueryFormat: "f", Answers: "prometheus", Volatile: `"executionTimeMsec":\s*\d+`,
			Trouble: `\bpanic\b`, Ticks: "^vm_rows$|^vm_http_requests_total$", WritePath: "/write",
			Quiet: []string{"active_merges"}, Still: []string{"merges"},
			Counters: map[string]record.Counter{
				"inserted": {Name: "vm_rows_inserted_total", Labels: map[string]string{"type": "influx"}},
				"stored":   {Name: "vm_rows_added_to_storage_total"},
				"ignored":  {Name: "vm_rows_ignored_total"}, "invalid": {Name: "vm_rows_invalid_total"},
				"rows_read":     {Name: "vm_rows_read_per_query_sum"},
				"active_merges": {Name: "vm_active_merges"}, "merges": {Name: "vm_merges_total"},
				"requests": {Name: "vm_http_requests_total", Labels: map[string]string{"path": "/api/v1/query_range"}},
			}}},
		Watchdog: record.Watchdog{HealthS: 90, LoadStallS: 90, QueryStallS: 90, StopS: 90, IdleTimeoutS: 20},
		Host:     record.HostSettings{Port: 20000 + 100*int(ports.Add(1))},
		Workload: &record.WorkloadPlan{Workers: 1, BatchSize: 10000, Lines: lines48, Samples: lines48 * 10},
		Queries:  record.Queries{Solo: true, Workers: 1, Count: new(20), Cache: "as-loaded", Seconds: 0.2, MaxCount: 70},
		Settle:   record.Settle{Drain: true, Mode: "natural", TimeoutS: 90, Polls: 1, PollS: 0.1},
		Design:   record.Design{Reload: "every"}, Duel: shortDuel,
		Noise: &record.Limits{CanaryPct: new(0.0)},
	}
	plan.Duel.Enabled = false
	spec := record.Spec{Plan: plan, Row: record.BlockRow{Block: 1, Kind: "measured", QueryTypes: types[:1]},
		RunDir: root, Raw: filepath.Join(root, "raw"), Dir: filepath.Join(root, "raw", "001.partial"),
		Scratch: filepath.Join(root, "scratch"), Events: record.NewEvents(root, filepath.Join(root, "raw"), true),
		Builds: &record.Builds{TSBSBin: tsbs, Variants: map[string]record.Build{}}, Workload: &record.Workload{}}
	for i, name := range []string{"baseline", "candidate", "third"}[:max(2, len(modes))] {
		env := map[string]string{}
		if i < len(modes) {
			env["FAKE_MODE"] = modes[i]
		}
		plan.Variants = append(plan.Variants, record.Variant{Name: name, Target: "fake",
			Components: []record.Component{{Role: "server", Env: env}}})
		spec.Builds.Variants[name] = record.Build{Binary: filepath.Join(tsbs, "database")}
	}
	data := filepath.Join(root, "data")
	check(t, os.WriteFile(data, generate("data", "--scale=2", "--timestamp-start=2025-06-10T00:00:00Z",
		"--timestamp-end=2025-06-11T00:00:00Z", "--log-interval=1h"), 0o644))
	spec.Workload.Data = []record.DataFile{{Format: "f", Path: data, FeedPath: data, Samples: lines48 * 10,
		Lines: lines48}}
	for _, name := range types {
		path := filepath.Join(root, name+".gob")
		check(t, os.WriteFile(path, generate("queries", "--query-type="+name, "--queries=400", "--seed=1"), 0o644))
		spec.Workload.Queries = append(spec.Workload.Queries,
			record.QueryFile{Format: "f", Type: name, Path: path, Count: 400})
	}
	return spec
}

// adapter is the path of a verb.
func adapter(runDir, verb string) string {
	return filepath.Join(runDir, "project", "scripts", "targets", "fake", verb)
}

func script(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+text+"\n"), 0o755))
}

// first lets an adapter's verb begin with some commands.
func first(t *testing.T, spec record.Spec, verb, commands string) {
	t.Helper()
	path := adapter(spec.RunDir, verb)
	script(t, path, commands+"\n"+string(must(os.ReadFile(path))))
}

// calls are the calls of the adapters, of a server by the verb alone.
func calls(spec record.Spec) []string {
	text := string(must(os.ReadFile(filepath.Join(spec.RunDir, "calls"))))
	return strings.Fields(strings.ReplaceAll(text, " server", ""))
}

func generate(what string, args ...string) []byte {
	made, _ := generated.LoadOrStore(what+strings.Join(args, " "), sync.OnceValue(func() []byte {
		return must(exec.Command("../../tests/fakes/tsbs_generate_"+what, args...).Output())
	}))
	return made.(func() []byte)()
}

var generated sync.Map // once for all tests: command line -> its output

// run runs a block, the candidate first, and requires that nothing is left of it.
func run(t *testing.T, spec record.Spec) *record.Block {
	t.Helper()
	if spec.Row.Order == nil {
		for _, v := range slices.Backward(spec.Plan.Variants) {
			spec.Row.Order = append(spec.Row.Order, v.Name)
		}
	}
	b, err := Run(t.Context(), spec)
	check(t, err)
	nothingLeft(t, spec)
	return b
}

// duels are fakes that are ready for the duel of block 2, of 40 queries of the first type and 30 of the other.
func duels(t *testing.T, modes ...string) *frame {
	t.Helper()
	spec := fakes(t, modes...)
	spec.Row = record.BlockRow{Block: 2, Turn: 2, Kind: "measured", QueryTypes: types[:1]}
	spec.Calibration = &record.Calibration{Counts: map[string]int{types[0]: 40, types[1]: 30}}
	spec.Plan.Duel.Enabled = true
	target := spec.Plan.Targets["fake"]
	target.Counters["answers_kept"] = record.Counter{Name: "vm_cache_entries"}
	f := newFrame(spec, nil)
	f.given.Adapters = filepath.Dir(adapter(spec.RunDir, ""))
	for _, v := range f.Plan.Variants {
		f.Row.Order = append(f.Row.Order, v.Name)
		v.Components[0].Env["FAKE_ASKED"] = "1"
		one := newVariant(f, v)
		f.variants[v.Name] = one
		for _, dir := range []string{one.Dir, filepath.Join(one.Data, "server"), f.layout.EmptyDir()} {
			check(t, os.MkdirAll(dir, 0o755))
		}
	}
	t.Cleanup(func() {
		for _, v := range f.variants {
			check(t, v.Close(true))
		}
	})
	return f
}

func fight(t *testing.T, f *frame) *record.Block {
	t.Helper()
	*f.block = *record.NewBlock(f.Row)
	check(t, runDuel(t.Context(), f, "", f.Row.QueryTypes, &f.block.Duel))
	return f.block
}

// behind puts proxies before the candidate's database, vmauth first: role -> what is wrong with it.
func behind(spec record.Spec, wrong map[string]string) {
	target := spec.Plan.Targets["fake"]
	target.Queues = []string{"vmagent"}
	target.Quiet = append(target.Quiet, "queued")
	target.Counters["queued"] = record.Counter{Name: "vmagent_remotewrite_pending_data_bytes", Role: "vmagent"}
	target.Counters["merges"] = record.Counter{Name: "vm_merges_total", Role: "server"}
	spec.Plan.Targets["fake"] = target
	spec.Plan.Duel.Enabled, spec.Plan.Duel.Batches = true, true
	build, candidate := spec.Builds.Variants["candidate"], &spec.Plan.Variants[1]
	server := candidate.Components[0]
	candidate.Components = nil
	for _, role := range []string{"vmauth", "vmagent"} {
		if mode, there := wrong[role]; there {
			candidate.Components = append(candidate.Components, record.Component{Role: role,
				Env: map[string]string{"FAKE_PROXY": mode}, Files: map[string]string{"relabel.yml": "- action: keep\n"}})
			build.Components = append(build.Components,
				record.Built{Role: role, Binary: filepath.Join(spec.Builds.TSBSBin, "proxy")})
		}
	}
	candidate.Components = append(candidate.Components, server)
	build.Components = append(build.Components, record.Built{Role: "server", Binary: build.Binary})
	spec.Builds.Variants["candidate"] = build
}

// once calls act as soon as a file has a text, or some text, unless the test has ended before.
func once(t *testing.T, act func(), text, path string) {
	go func() {
		defer act()
		for ; t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
			if body, err := os.ReadFile(path); err == nil && len(body) > 0 && strings.Contains(string(body), text) {
				return
			}
		}
	}()
}

// failed requires that the block has failed, with one failure, in a part and phase of the candidate.
func failed(t *testing.T, b *record.Block, part, phase, sentence string) record.Failure {
	t.Helper()
	if len(b.Failures) != 1 {
		t.Fatalf("%s: %+v", b.Status, b.Failures)
	}
	f := b.Failures[0]
	if f.Variant != "candidate" || f.Part != part || f.Phase != phase ||
		!regexp.MustCompile(sentence).MatchString(f.Message) {
		t.Errorf("%+v is not %q in %s %s", f, sentence, part, phase)
	}
	return f
}

func succeeded(t *testing.T, b *record.Block) {
	t.Helper()
	if b.Status != record.OK || b.Void != "" || len(b.Failures) > 0 {
		t.Fatalf("%+v, void: %q", b.Failures, b.Void)
	}
}

func checksPassed(t *testing.T, b *record.Block) {
	t.Helper()
	for _, c := range b.Checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
}

func nothingLeft(t *testing.T, spec record.Spec) {
	t.Helper()
	if count, err := proc.EndStrays(spec.Scratch); count != 0 || err != nil {
		t.Errorf("%d processes were left (%v)", count, err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// logged is what the fake database wrote to its log after a word, one item a line.
func logged(spec record.Spec, log, word string) (found []string) {
	for line := range strings.Lines(string(must(os.ReadFile(filepath.Join(spec.Dir, log))))) {
		if text, ok := strings.CutPrefix(line, word+" "); ok {
			found = append(found, strings.TrimSpace(text))
		}
	}
	return found
}

// asked are the numbers of the queries that a server was asked in a duel, with their type: t5, u7.
func asked(t *testing.T, f *frame, name string) (queries []string) {
	t.Helper()
	if slices.Contains(logged(f.Spec, name+"/duel-server.log", "cache"), "present") {
		t.Errorf("%s began with a cache", name)
	}
	short := strings.NewReplacer("query="+types[0]+"&seed=1&n=", "t", "query="+types[1]+"&seed=1&n=", "u")
	for _, query := range logged(f.Spec, name+"/duel-server.log", "asked") {
		queries = append(queries, short.Replace(query))
	}
	return queries
}

// numbers are count queries of a type, from first on.
func numbers(queryType string, first, count int) (queries []string) {
	for n := range count {
		queries = append(queries, fmt.Sprint(queryType, first+n))
	}
	return queries
}

func rows(t *testing.T, f *frame, name string) []string {
	t.Helper()
	file := must(os.Open(filepath.Join(f.Dir, "duel", name)))
	defer file.Close()
	text := must(io.ReadAll(must(gzip.NewReader(file))))
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func events(spec record.Spec) string {
	return string(must(os.ReadFile(filepath.Join(spec.Raw, "events.jsonl"))))
}
