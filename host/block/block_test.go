package block

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"

	"github.com/klauspost/compress/zstd"
)

// TestMain makes the test's binary answer the adapters' calls of tsduel-host.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "get" {
		body, err := scrape.Fetch(context.Background(), os.Args[len(os.Args)-1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = os.Stdout.Write(body)
		// Not os.Exit, at which the race detector sleeps for a second while other goroutines live.
		syscall.Exit(0)
	}
	_ = proc.Subreaper()
	// A slow machine only takes longer: no test counts on an answer, or a start, within a second.
	scrape.CacheAge, scrape.Timeout, ratesPatience = time.Millisecond, time.Minute, 5*time.Minute
	machine.TakeCanary = func(string) (*record.Canary, error) {
		return &record.Canary{CPUS: 1, MemoryS: 1, FsyncS: 1},
			nil
	}
	machine.EndAll = func(scratch string) error { // a machine that is lent has none, and its block ends all
		if scratch == "" {
			return nil
		}
		_, err := proc.EndStrays(scratch)
		return err
	}
	// Blocks mostly wait, and each has its own directories and ports.
	flag.Parse()
	_ = flag.Set("test.parallel", "6")
	// What a server may have of our environment, and what not.
	_, _ = os.Setenv("LC_ALL", "C.UTF-8"), os.Setenv("GOGC", "7")
	code := m.Run()
	proc.Leave()
	os.Exit(code)
}

var types = []string{"single-groupby-1-1-1", "cpu-max-all-1"}

const lines48 = 48 // of ten samples

var shortDuel = record.Duel{Enabled: true, Seconds: 0.1, Least: 8, LongestS: 1, Fewest: 4, InFlight: 1, IdleS: 0.05,
	MostDifferences: 10}

// fakes is a project with the real adapters, which log their calls, a fake database and fake commands of
// TSBS.
func fakes(t *testing.T) (record.Spec, func() []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts databases")
	}
	root, project := t.TempDir(), must(filepath.Abs("../.."))
	tsbs := filepath.Join(project, "tests", "fakes")
	targets := filepath.Join(root, "project", "scripts", "targets", "fake")
	calls := filepath.Join(root, "calls")
	check(t, os.MkdirAll(targets, 0o755), os.MkdirAll(filepath.Join(root, "raw", "001.partial"), 0o755),
		os.MkdirAll(filepath.Join(root, "scratch"), 0o755))
	real := filepath.Join(project, "scripts", "targets", "victoriametrics")
	for _, e := range must(os.ReadDir(real)) {
		body := fmt.Sprintf("#!/usr/bin/env bash\nprintf '%%s\\n' %q >>%q\n. %q\n", e.Name()+" $DB_ROLE", calls,
			filepath.Join(real, e.Name()))
		body = strings.Replace(body, `\$DB_ROLE`, "$DB_ROLE", 1)
		check(t, os.WriteFile(filepath.Join(targets, e.Name()), []byte(body), 0o755))
	}
	plan := &record.Plan{
		Run: "r", Kind: "tsbs", Targets: map[string]record.Target{"fake": {
			DataFormat: "f", QueryFormat: "f", Answers: "prometheus", Volatile: `"executionTimeMsec":\s*\d+`,
			Trouble: `\bpanic\b`, Ticks: "^vm_rows$|^vm_http_requests_total$",
			Quiet: []string{"active_merges"}, Still: []string{"merges"},
			Counters: map[string]record.Counter{
				"inserted": {Name: "vm_rows_inserted_total", Labels: map[string]string{"type": "influx"}},
				"stored":   {Name: "vm_rows_added_to_storage_total"},
				"ignored":  {Name: "vm_rows_ignored_total"}, "invalid": {Name: "vm_rows_invalid_total"},
				"rows_read":     {Name: "vm_rows_read_per_query_sum"},
				"active_merges": {Name: "vm_active_merges"}, "merges": {Name: "vm_merges_total"},
				"requests": {Name: "vm_http_requests_total", Labels: map[string]string{"path": "/api/v1/query_range"}},
			}}},
		Watchdog: record.Watchdog{HealthS: 90, LoadStallS: 90, QueryStallS: 90, StopS: 90, IdleTimeoutS: 5},
		Host:     record.HostSettings{Port: freePortOf(t)},
		Workload: &record.WorkloadPlan{Workers: 1, BatchSize: 10000, Lines: lines48, Samples: lines48 * 10},
		Queries:  record.Queries{Solo: true, Workers: 1, Count: new(int), Cache: "as-loaded", Seconds: 0.2, MaxCount: 70},
		Settle:   record.Settle{Drain: true, Mode: "natural", TimeoutS: 90, Polls: 1, PollS: 0.1},
		Design:   record.Design{Reload: "every"},
		Noise:    &record.Limits{CanaryPct: new(float64)},
	}
	*plan.Queries.Count = 20
	spec := record.Spec{Plan: plan, Row: record.BlockRow{Block: 1, Kind: "measured", QueryTypes: types[:1]},
		RunDir: root, Raw: filepath.Join(root, "raw"), Dir: filepath.Join(root, "raw", "001.partial"),
		Scratch: filepath.Join(root, "scratch"), Events: record.NewEvents(root, filepath.Join(root, "raw"), true),
		Builds: &record.Builds{TSBSBin: tsbs, Variants: map[string]record.Build{}}, Workload: &record.Workload{}}
	for _, name := range []string{"baseline", "candidate"} {
		addVariant(spec, name)
	}
	data := filepath.Join(root, "data")
	check(t, os.WriteFile(data, generate(t, tsbs, "data", "--scale=2", "--timestamp-start=2025-06-10T00:00:00Z",
		"--timestamp-end=2025-06-11T00:00:00Z", "--log-interval=1h"), 0o644))
	spec.Workload.Data = []record.DataFile{{Format: "f", Path: data, FeedPath: data, Samples: lines48 * 10}}
	for _, name := range types {
		path := filepath.Join(root, name+".gob")
		check(t, os.WriteFile(path, generate(t, tsbs, "queries", "--query-type="+name, "--queries=400", "--seed=1"), 0o644))
		spec.Workload.Queries = append(spec.Workload.Queries,
			record.QueryFile{Format: "f", Type: name, Path: path, Count: 400})
	}
	return spec, func() []string {
		return strings.Fields(strings.ReplaceAll(string(must(os.ReadFile(calls))), " server", ""))
	}
}

func generate(t *testing.T, tsbs, what string, args ...string) []byte {
	t.Helper()
	key := what + strings.Join(args, " ")
	if _, made := generated.Load(key); !made {
		generated.Store(key, must(exec.Command(filepath.Join(tsbs, "tsbs_generate_"+what), args...).Output()))
	}
	made, _ := generated.Load(key)
	return made.([]byte)
}

var generated sync.Map // once for all tests: command line -> its output

func addVariant(spec record.Spec, name string) {
	spec.Plan.Variants = append(spec.Plan.Variants,
		record.Variant{Name: name, Target: "fake", Components: []record.Component{{Role: "server",
			Env: map[string]string{}}}})
	spec.Builds.Variants[name] = record.Build{Binary: filepath.Join(spec.Builds.TSBSBin, "database")}
}

// given gives an adapter's verb a variable of its environment.
func given(t *testing.T, spec record.Spec, verb, assignment string) {
	t.Helper()
	path := filepath.Join(spec.RunDir, "project", "scripts", "targets", "fake", verb)
	text := strings.Replace(string(must(os.ReadFile(path))), "\n", "\nexport "+assignment+"\n", 1)
	check(t, os.WriteFile(path, []byte(text), 0o755))
}

// does has a variant's database do something wrong.
func does(spec record.Spec, name, mode string) {
	for _, v := range spec.Plan.Variants {
		if v.Name == name {
			v.Components[0].Env["FAKE_MODE"] = mode
		}
	}
}

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

func succeeded(t *testing.T, b *record.Block) {
	t.Helper()
	if b.Status != record.OK || b.Void != "" {
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

func freePortOf(t *testing.T) int {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
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

// logged is what the fake database wrote to its log after a word, one item a start.
func logged(t *testing.T, spec record.Spec, variant, word string) (found []string) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(filepath.Join(spec.Dir, variant, "server.log"))))) {
		if text, ok := strings.CutPrefix(line, word+" "); ok {
			found = append(found, strings.TrimSpace(text))
		}
	}
	return found
}

// A whole block calls adapters and phases in order and checks all. Flags and environment arrive unchanged.
func TestWholeBlock(t *testing.T) {
	t.Parallel()
	spec, calls := fakes(t)
	nasty := []string{"-a=with space", "-b=$(touch x)", "-c='\"`id`", "-d=two\nlines", "-e=*"}
	spec.Plan.Variants[0].Components[0].Flags = nasty
	spec.Plan.Variants[0].Components[0].Env = map[string]string{"FAKE_TEXT": "a 'b' \"c\" $(touch x)\nd;e",
		"PATH": "/nowhere:" + os.Getenv("PATH"), "FAKE_BUSY_S": "2"}
	spec.Row.QueryTypes = types
	spec.Plan.Queries.Count = nil
	spec.Plan.Settle.Polls = 3
	b := run(t, spec)
	if b.Status != record.OK || len(b.Failures) > 0 {
		t.Fatalf("%+v", b.Failures)
	}
	var phases []string
	for _, p := range b.Phases {
		phases = append(phases, strings.TrimSpace(p.Variant+" "+p.Phase+" "+p.QueryType))
		if p.Phase == "load" && p.Count != lines48*10 || p.Phase == "query" && (p.Count < 20 || p.Count > 70) ||
			p.End < p.Begin {
			t.Errorf("%+v", p)
		}
		if timed := p.Phase == "load" || p.Phase == "settle" || p.Phase == "query"; timed != (p.Noise != nil) ||
			timed && p.Noise.ForeignS == nil {
			t.Errorf("noise of %s: %+v", p.Phase, p.Noise)
		}
	}
	var want []string
	for _, v := range []string{"candidate", "baseline"} {
		for _, p := range []string{"canary", "start", "load", "settle", "stop", "query " + types[0], "query " + types[1]} {
			want = append(want, v+" "+p)
		}
	}
	if !slices.Equal(phases, want) {
		t.Errorf("phases %q", phases)
	}
	one := []string{"start", "endpoints", "load", "settle", "stop", "size", "forget", "start", "endpoints", "query",
		"query", "query", "query", "stop"}
	if seen := slices.DeleteFunc(calls(), func(c string) bool { return c == "ready" }); !slices.Equal(seen,
		slices.Concat(one, one)) {
		t.Errorf("calls %q", seen)
	}
	for name, solo := range b.Solo {
		if solo.Sizes["data_bytes"] < 8192 || solo.Restarts != 1 ||
			solo.CPUNS["load"] <= 0 || solo.CPUNS["drained"] < solo.CPUNS["load"] || solo.CPUNS["query:"+types[0]] <= 0 ||
			solo.Canary.CPUS <= 0 {
			t.Errorf("%s: %+v", name, solo)
		}
	}
	// The fake is busy for 2 s. The first quiet poll counts, and not the two that protect what comes later.
	var loaded, settled float64
	for _, p := range b.Phases {
		if p.Variant == "baseline" && p.Phase == "load" {
			loaded = p.End
		} else if p.Variant == "baseline" && p.Phase == "settle" {
			settled = p.End
		}
	}
	if drain := *b.Solo["baseline"].DrainS; drain < 1 || drain > settled-loaded-2*spec.Plan.Settle.PollS {
		t.Errorf("drain %v s of %v s", drain, settled-loaded)
	}
	var argv []string
	check(t, json.Unmarshal([]byte(logged(t, spec, "baseline", "argv")[0]), &argv))
	if !slices.Equal(argv[2:len(argv)-1], nasty) || !strings.HasPrefix(argv[len(argv)-1], "-httpListenAddr=127.0.0.1:") {
		t.Errorf("argv %q", argv)
	}
	if env := logged(t, spec, "baseline", "env")[0]; !strings.Contains(env, `"FAKE_TEXT": "a 'b' \"c\" $(touch x)\nd;e"`) {
		t.Errorf("env %s", env)
	}
	checksPassed(t, b)
	if len(b.Checks) != 2*(12+2*4+1) {
		t.Errorf("%d checks: %+v", len(b.Checks), b.Checks)
	}
}

// queries.cache decides the state of the database's caches when a type is timed.
func TestCaches(t *testing.T) {
	for cache, want := range map[string]struct {
		starts  int
		queries int
		flag    bool
	}{"cold": {3, 2, false}, "warm": {2, 4, false}, "off": {2, 2, true}} {
		t.Run(cache, func(t *testing.T) {
			t.Parallel()
			spec, calls := fakes(t)
			spec.Plan.Queries.Cache, spec.Row.QueryTypes, spec.Row.Order = cache, types, []string{"baseline"}
			b := run(t, spec)
			if b.Status != record.OK {
				t.Fatalf("%+v", b.Failures)
			}
			// Before each start its caches on disk were deleted, and counters belong to the process that they are of.
			if found := logged(t, spec, "baseline", "cache"); len(found) != want.starts || slices.Contains(found, "present") {
				t.Errorf("cache %q", found)
			}
			queries := 0
			for _, call := range calls() {
				if call == "query" {
					queries++
				}
			}
			if queries != want.queries || b.Solo["baseline"].Restarts != want.starts-1 {
				t.Errorf("%d queries, %d restarts", queries, b.Solo["baseline"].Restarts)
			}
			if strings.Contains(logged(t, spec, "baseline", "argv")[0], "-search.disableCache") != want.flag {
				t.Error("-search.disableCache")
			}
			if kept := must(filepath.Glob(filepath.Join(spec.Dir, "baseline", "query", "*"))); len(kept) != 4 {
				t.Errorf("kept %q", kept)
			}
		})
	}
}

// A cold cache is refused where the kernel cannot drop files from memory: what was measured would be warm.
func TestAColdCacheThatCannotBeHadIsRefused(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	if syscall.Mount("tmpfs", spec.Scratch, "tmpfs", 0, "size=64m") != nil {
		t.Skip("no disk can be mounted here")
	}
	t.Cleanup(func() { _ = syscall.Unmount(spec.Scratch, 2) })
	spec.Plan.Queries.Cache, spec.Row.Order = "cold", []string{"baseline"}
	_, err := Run(t.Context(), spec)
	var stop *record.Stop
	if !errors.As(err, &stop) || !strings.HasPrefix(stop.Message, "queries.cache is cold, and ") {
		t.Error(err)
	}
	nothingLeft(t, spec)
}

// If a database misbehaves, the block fails within seconds, with a sentence, in the right phase.
func TestMisbehaviour(t *testing.T) {
	for _, c := range []struct {
		mode, phase, sentence string
		change                func(*record.Plan)
	}{
		{"unhealthy", "start", "the server did not become healthy within 1s: ",
			func(p *record.Plan) { p.Watchdog.HealthS = 1 }},
		{"bad-flag", "start", "died: flag provided but not defined: -nonsense (its log: ", nil},
		{"open", "start", "candidate listens for others, at 0.0.0.0:", nil},
		{"die-in-load", "load", ") died: ", nil},
		{"503", "load", "no sample was acknowledged for 8 s: the server answers HTTP status 503; ",
			func(p *record.Plan) { p.Watchdog.LoadStallS = 8 }},
		{"hang-metrics", "settle",
			"the database did not settle within 4 s: its counters cannot be read at http://127.0.0.1:",
			func(p *record.Plan) { p.Settle.TimeoutS, scrape.Timeout = 4, 4*time.Second }},
		{"merging", "settle", "the database did not settle within 4 s: 1 still to do",
			func(p *record.Plan) { p.Settle.TimeoutS = 4 }},
		{"drop", "settle", "the database stored 0 samples of 480 (vm_rows_added_to_storage_total)", nil},
		{"ignore-term", "stop", "had to be killed: it did not stop within 8s", func(p *record.Plan) { p.Watchdog.StopS = 8 }},
		{"blow-up", "stop", "the server's log has a panic or a fatal error: panic: BUG: at the very end", nil},
		{"query-error", "query", "ended with exit code 2: panic: http request did not return status 200", nil},
		{"hang-query", "query", "no query was answered for 2 s", func(p *record.Plan) { p.Watchdog.QueryStallS = 2 }},
		{"die-in-query", "query", ") died: ", nil},
		{"no-rows", "query", "the queries of single-groupby-1-1-1 read no data: vm_rows_read_per_query_sum did not move",
			nil},
	} {
		t.Run(c.mode, func(t *testing.T) {
			if c.mode != "hang-metrics" { // which is waited for as long as every test waits for an answer
				t.Parallel()
			} else {
				defer func(usual time.Duration) { scrape.Timeout = usual }(scrape.Timeout)
			}
			spec, _ := fakes(t)
			does(spec, "candidate", c.mode)
			if c.change != nil {
				c.change(spec.Plan)
			}
			b := run(t, spec)
			if len(b.Failures) != 1 || b.Status != record.Failed {
				t.Fatalf("%s: %+v", b.Status, b.Failures)
			}
			f := b.Failures[0]
			if f.Variant != "candidate" || f.Part != record.Solo || f.Phase != c.phase ||
				!strings.Contains(f.Message, c.sentence) || strings.Contains(f.Message, ".partial") {
				t.Errorf("%+v", f)
			}
			// The baseline, whose turn would have come, is not tried.
			if _, tried := b.Solo["baseline"]; tried {
				t.Error("the baseline was run")
			}
			if last := b.Checks[len(b.Checks)-1]; last.Check != "block_finished" || last.OK || last.Variant != "candidate" ||
				last.Message != f.Message {
				t.Errorf("%+v", last)
			}
		})
	}
}

// Commands of TSBS may misbehave, too.
func TestClients(t *testing.T) {
	t.Run("samples that were not sent", func(t *testing.T) {
		t.Parallel()
		spec, _ := fakes(t)
		given(t, spec, "load", "FAKE_LOST_SAMPLES=10")
		if f := run(t, spec).Failures[0]; f.Phase != "load" ||
			f.Message != "the loader says it sent 470 samples, and the plan has 480" {
			t.Errorf("%+v", f)
		}
	})
	t.Run("batches that a server put off", func(t *testing.T) {
		t.Parallel()
		spec, _ := fakes(t)
		given(t, spec, "load", "FAKE_BACKOFF=1.00")
		if f := run(t, spec).Failures[0]; f.Phase != "load" ||
			f.Message != "the loader complained on 1 lines, the first: [worker 0] backoff took 1.00sec" {
			t.Errorf("%+v", f)
		}
	})
	t.Run("a hang at the start is the client's fault", func(t *testing.T) {
		t.Parallel()
		spec, _ := fakes(t)
		hangs := filepath.Join(spec.RunDir, "hangs")
		check(t, os.WriteFile(hangs, []byte("once\n"), 0o644))
		given(t, spec, "query", "FAKE_HANGS="+hangs)
		spec.Plan.Watchdog.QueryStallS = 60 // long after the client is given up (5 s)
		spec.Row.Order = []string{"baseline"}
		b := run(t, spec)
		attempts := map[string]int{}
		for _, p := range b.Phases {
			if p.Phase == "query" {
				attempts[p.Variant] = p.Attempts
			}
		}
		if b.Status != record.OK || attempts["baseline"] != 2 {
			t.Errorf("%v %+v", attempts, b.Failures)
		}
		if events := string(must(os.ReadFile(filepath.Join(spec.RunDir, "raw", "events.jsonl")))); !strings.Contains(events,
			"fault of the client") {
			t.Error(events)
		}
	})
	t.Run("packed data are unpacked by us, and a port that is taken is not used", func(t *testing.T) {
		t.Parallel()
		spec, _ := fakes(t)
		l := must(net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(spec.Plan.Host.Port)))
		defer l.Close()
		spec.Row.Order = []string{"baseline"}
		packed := spec.Workload.Data[0].Path + ".zst"
		encoder := must(zstd.NewWriter(nil))
		check(t, os.WriteFile(packed, encoder.EncodeAll(must(os.ReadFile(spec.Workload.Data[0].Path)), nil), 0o644))
		spec.Workload.Data[0] = record.DataFile{Format: "f", Path: packed, FeedPath: packed, Samples: lines48 * 10}
		if b := run(t, spec); b.Status != record.OK {
			t.Errorf("%+v", b.Failures)
		}
	})
}

// Of three variants the one that fails is left out. Without the baseline nothing is compared.
func TestThreeVariants(t *testing.T) {
	for broken, want := range map[string][]string{"second": {"candidate", "baseline"}, "baseline": {}} {
		spec, _ := fakes(t)
		spec.Plan.Queries.Solo = false
		addVariant(spec, "second")
		does(spec, broken, "bad-flag")
		b := run(t, spec)
		for _, name := range want {
			if b.Solo[name].DrainS == nil {
				t.Errorf("%s broken: %s was not run to its end", broken, name)
			}
		}
		if len(b.Failures) != 1 || b.Failures[0].Variant != broken {
			t.Errorf("%+v", b.Failures)
		}
	}
}

// With design.reload once, later blocks begin with what the first one has loaded, as the load left it.
func TestReloadOnce(t *testing.T) {
	t.Parallel()
	spec, calls := fakes(t)
	spec.Plan.Design.Reload, spec.Row.Order = "once", []string{"baseline"}
	// And a database that says what it has counted to its adapter alone is checked as any other.
	endpoints := filepath.Join(spec.RunDir, "project", "scripts", "targets", "fake", "endpoints")
	check(t, os.WriteFile(endpoints, []byte("printf 'clients http://127.0.0.1:%s\\n' \"$DB_PORT\"\n"), 0o755))
	run(t, spec)
	before := len(calls())
	if b := run(t, spec); b.Status != record.OK || b.Solo["baseline"].DrainS != nil || len(b.Phases) != 1 {
		t.Errorf("%+v %+v", b.Failures, b.Phases)
	}
	again := calls()[before:]
	if slices.Contains(again, "load") || !slices.Contains(again, "query") || !slices.Contains(again, "metrics") {
		t.Errorf("%q", again)
	}
	// Each block worked on a copy: the loaded one has kept the cache that its load left.
	places := layout{scratch: spec.Scratch, plan: spec.Plan}
	if _, err := os.Stat(filepath.Join(places.dataDir("loaded", "baseline"), "server", "cache", "rollup")); err != nil {
		t.Error(err)
	}
	spec.Plan.Run = "another run"
	if b := run(t, spec); b.Solo["baseline"].DrainS == nil {
		t.Error("data of another run were used")
	}
}

// A block that is interrupted ends without waiting for what it has started, leaves nothing, and has no record.
func TestInterrupted(t *testing.T) {
	for _, phase := range []string{"start", "load", "query"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			spec, _ := fakes(t)
			does(spec, "baseline", "hang-query")
			if phase == "load" {
				given(t, spec, "load", "FAKE_LOAD_S=86400")
			}
			spec.Plan.Watchdog.LoadStallS, spec.Plan.Watchdog.QueryStallS = 86400, 86400
			spec.Row.Order = []string{"baseline", "candidate"}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				for begun := []byte(`"phase":"` + phase + `"`); ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
					if events, _ := os.ReadFile(filepath.Join(spec.Raw, "events.jsonl")); bytes.Contains(events, begun) {
						return
					}
				}
			}()
			if b, err := Run(ctx, spec); b != nil || err == nil {
				t.Errorf("%v %v", b, err)
			}
			cancel()
			nothingLeft(t, spec)
		})
	}
}

// A directory that is not marked as ours is not wiped.
func TestPrecious(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	file := filepath.Join(spec.Scratch, "data", "precious")
	check(t, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("mine"), 0o644))
	if _, err := Run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "is not marked as ours") {
		t.Error(err)
	}
	if text := must(os.ReadFile(file)); !bytes.Equal(text, []byte("mine")) {
		t.Error(text)
	}
}

// A server that the kernel has ended for want of memory is a failed block that says so.
func TestWantOfMemory(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TSDUEL_PROC", root)
	check(t, os.WriteFile(filepath.Join(root, "vmstat"), []byte("pgfault 9\noom_kill 3\n"), 0o644))
	m := &machines{oomKills: 3, hosts: map[string]machine.Machine{"": machine.NewHere(t.Context(), "")}}
	if said := m.outOfMemory(); said != "" {
		t.Error(said)
	}
	m.oomKills = 2
	if said := m.outOfMemory(); !strings.Contains(said,
		"the kernel has ended a process for want of memory in this block") {
		t.Error(said)
	}
}
