package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"

	"golang.org/x/sys/unix"
)

// With FAKE_DRIVER the test program is the driver: its blocks start a process and last FAKE_S seconds,
// or until the file finish is in the directory of the run.
func TestMain(m *testing.M) {
	if os.Getenv("FAKE_DRIVER") == "" {
		os.Exit(m.Run())
	}
	if os.Args[1] == "detached" {
		d, err := NewDetached(os.Args[3], os.Args[4], os.Args[5], os.Args[6:]...)
		if err == nil {
			err = d.Rounds()
		}
		fmt.Println(err)
		// Not os.Exit: at its call the race detector sleeps for a second.
		syscall.Exit(0)
	}
	if os.Getenv("TSDUEL_DIE_WITH_PARENT") != "" {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
	}
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	_ = proc.Subreaper()
	kinds := map[string]Kind{"tsbs": {Block: sleepingBlock, Phases: onePhase}}
	syscall.Exit(Run(ctx, os.Args[2], os.Getenv("TSDUEL_CACHE"), Share{Host: os.Args[3]}, kinds))
}

func onePhase(*record.Plan, record.BlockRow, *record.Calibration) int { return 1 }

func sleepingBlock(ctx context.Context, spec record.Spec) (*record.Block, error) {
	// A process in another session gets no signal of ours.
	argv := []string{"/bin/sh", "-c", "setsid sleep 600 & sleep 600"}
	p, err := proc.Start(proc.Command{Argv: argv, Scratch: spec.Scratch})
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Kill() }()
	if err := os.WriteFile(filepath.Join(spec.Dir, "begun"), nil, 0o644); err != nil {
		return nil, err
	}
	if os.Getenv("FAKE_CRASH") != "" {
		go func() { panic("nobody caught it") }()
	}
	seconds, _ := strconv.ParseFloat(os.Getenv("FAKE_S"), 64)
	end := time.Now().Add(record.Seconds(seconds))
	for time.Now().Before(end) && !exists(filepath.Join(spec.RunDir, "finish")) {
		if err := record.Sleep(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return done(spec), nil
}

// done is a block without failures.
func done(spec record.Spec) *record.Block {
	b := record.NewBlock(spec.Row)
	b.Started = record.Epoch(time.Now())
	b.Ended, b.BootID = b.Started+1, noise.BootID()
	for _, v := range spec.Row.Order {
		b.Solo[v] = record.SoloRecord{Canary: &record.Canary{CPUS: 1, MemoryS: 1, FsyncS: 1}}
	}
	b.Duel = &record.DuelRecord{}
	path := filepath.Join(spec.Dir, "duel")
	_ = os.MkdirAll(path, 0o777)
	if table, err := record.CreatePacked(filepath.Join(path, "exchanges.csv.gz")); err == nil {
		_, _ = table.WriteString("query_type,sitting\n")
		_ = table.Close()
	}
	for _, t := range spec.Row.QueryTypes {
		b.Duel.Types = append(b.Duel.Types, record.DuelType{QueryType: t, Exchanges: 100, Compared: 100, Seconds: 0.5})
	}
	return b
}

// fixture is a run whose blocks are fakes.
type fixture struct {
	t          *testing.T
	dir, cache string
	plan       map[string]any
	rows       []string
	mutex      sync.Mutex
	ran        []int
	share      Share
	specs      map[int]record.Spec
	block      func(context.Context, record.Spec) (*record.Block, error)
	profile    func(context.Context, record.Spec) error
	calibrate  func(*record.Plan, string) (*record.Calibration, error)
}

// newFixture plans a warm-up block, some measured ones and spares.
func newFixture(t *testing.T, measured, spares int) *fixture {
	t.Helper()
	root := t.TempDir()
	t.Setenv("TSDUEL_LOCK", filepath.Join(root, "machine.lock"))
	f := &fixture{t: t, dir: filepath.Join(root, "a [run] 'x'"), cache: filepath.Join(root, "a cache"),
		share: Share{Host: "host1"}, specs: map[int]record.Spec{}}
	f.block = func(_ context.Context, spec record.Spec) (*record.Block, error) { return done(spec), nil }
	f.plan = map[string]any{"plan_version": record.PlanVersion, "run": "r", "kind": "tsbs", "hosts": []string{"host1"},
		"variants": []any{
			map[string]any{"name": "baseline", "components": []any{map[string]any{"build_key": "00000000000000ba"}}},
			map[string]any{"name": "candidate"}},
		"design": map[string]any{"blocks": measured, "warmup_blocks": 1, "spare_blocks": spares, "max_failed_blocks": 1},
		"noise":  map[string]any{"canary_pct": 10, "pool_s": 5},
		"queries": map[string]any{"max_count": 1000, "types": []any{
			map[string]any{"name": "cpu-max-all-1", "seed": 3, "keys": map[string]any{"victoriametrics": "c0"}}}},
		"workload": map[string]any{"use_case": "cpu-only", "scale": 1, "seed": 1, "interval": "80s", "interval_s": 80,
			"start": "2025-06-10T00:00:00Z", "end": "2025-06-10T13:00:00Z",
			"lines": 585, "samples": 5850, "estimated_bytes": 4000,
			"data": []any{map[string]any{"format": "victoriametrics", "key": "00000000000000da"}}},
		"duel": map[string]any{"enabled": true, "seconds": 2, "min_exchanges": 64, "max_seconds": 10, "floor_exchanges": 16,
			"in_flight": 1},
		"host":      map[string]any{"pin": "off"},
		"place":     map[string]any{"kind": "local"},
		"estimate":  map[string]any{"database_bytes": 1 << 20, "results_bytes": 1 << 20},
		"duration":  map[string]any{"block_s": 1.5},
		"something": "that a later Python has put here",
	}
	kind, coins := "warmup", "candidate,baseline\tbaseline,candidate\tcandidate,baseline\tbaseline,candidate"
	for block := range 1 + measured + spares {
		if block > 0 {
			kind = "measured"
		}
		if block > measured {
			kind, coins = "spare", "\t\t\t"
		}
		f.rows = append(f.rows, fmt.Sprintf("%d\thost1\t%s\t%s\tcpu-max-all-1", block, kind, coins))
	}
	f.put("build/baseline.json", map[string]any{"binary": "/bin/true"})
	f.put("build/candidate.json", map[string]any{"binary": "/bin/true"})
	fakes, err := filepath.Abs("../../tests/fakes")
	must(t, err)
	f.put("build/tsbs.json", map[string]any{"bin_dir": fakes})
	return f
}

func (f *fixture) put(name string, value any) {
	f.t.Helper()
	text, ok := value.(string)
	if !ok {
		bytes, err := json.Marshal(value)
		must(f.t, err)
		text = string(bytes)
	}
	must(f.t, os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	must(f.t, os.WriteFile(f.path(name), []byte(text), 0o644))
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) read(name string) string {
	text, err := os.ReadFile(f.path(name))
	must(f.t, err)
	return string(text)
}

func (f *fixture) write() {
	f.put("plan/experiment.json", f.plan)
	columns := "block\thost\tkind\torder\tstart\tread\task\tquery_types\n"
	f.put("plan/blocks.tsv", columns+strings.Join(f.rows, "\n")+"\n")
}

// run runs the driver in this process, and returns its stdout and stderr.
func (f *fixture) run(ctx context.Context, code int) string {
	f.t.Helper()
	f.write()
	r, w, err := os.Pipe()
	must(f.t, err)
	stderr, stdout := os.Stderr, os.Stdout
	os.Stderr, os.Stdout = w, w
	said := make(chan string)
	go func() {
		var all bytes.Buffer
		_, _ = all.ReadFrom(r)
		said <- all.String()
	}()
	block := func(ctx context.Context, spec record.Spec) (*record.Block, error) {
		f.mutex.Lock()
		f.ran = append(f.ran, spec.Row.Block)
		f.specs[spec.Row.Block] = spec
		f.mutex.Unlock()
		return f.block(ctx, spec)
	}
	kind := Kind{Block: block, Phases: onePhase, Calibrate: f.calibrate, Profile: f.profile}
	got := Run(ctx, f.dir, f.cache, f.share, map[string]Kind{"tsbs": kind})
	os.Stderr, os.Stdout = stderr, stdout
	w.Close()
	text := <-said
	if got != code {
		f.t.Fatalf("exit code %d and not %d:\n%s", got, code, text)
	}
	return text
}

func (f *fixture) wantRan(blocks ...int) {
	f.t.Helper()
	if !slices.Equal(f.ran, blocks) {
		f.t.Errorf("blocks %v ran and not %v", f.ran, blocks)
	}
	f.ran = nil
}

func (f *fixture) wantThere(blocks ...int) {
	f.t.Helper()
	var names, found []string
	for _, block := range blocks {
		names = append(names, record.BlockRow{Block: block}.Name())
	}
	for _, dir := range blockDirs(f.path("raw/host1")) {
		found = append(found, filepath.Base(dir))
	}
	if !slices.Equal(names, found) {
		f.t.Errorf("blocks %v are there and not %v", found, names)
	}
}

// events returns the events with a name.
func (f *fixture) events(name string) (found []map[string]any) {
	f.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(f.read("raw/"+f.share.Host+"/events.jsonl")), "\n") {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			f.t.Fatalf("%q: %v", line, err)
		}
		if event["event"] == name {
			found = append(found, event)
		}
	}
	return found
}

// start starts the driver as a program; its blocks last so many seconds. args: `run`, or `detached rounds`.
func (f *fixture) start(seconds float64, args ...string) *exec.Cmd {
	f.t.Helper()
	if testing.Short() {
		f.t.Skip("it starts drivers")
	}
	f.write()
	if args == nil {
		args = []string{"run", f.dir, "host1"}
	}
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "FAKE_DRIVER=1", "TSDUEL_CACHE="+f.cache, fmt.Sprintf("FAKE_S=%g", seconds))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stdout, c.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
	must(f.t, c.Start())
	f.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		_, _ = proc.EndStrays(filepath.Join(f.cache, "scratch"))
	})
	return c
}

func (f *fixture) waitFor(what string, is func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func (f *fixture) exists(name string) func() bool {
	return func() bool { _, err := os.Stat(f.path(name)); return err == nil }
}

// detached returns the Detached of a host's part of the run.
func (f *fixture) detached(host string) *Detached {
	f.t.Helper()
	f.write()
	d, err := NewDetached(f.dir, f.cache, host)
	must(f.t, err)
	return d
}

// left ends the processes of this run, and returns how many there were.
func (f *fixture) left() int {
	count, err := proc.EndStrays(filepath.Join(f.cache, "scratch"))
	must(f.t, err)
	return count
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func failIf(t *testing.T, wrong bool, format string, args ...any) {
	t.Helper()
	if wrong {
		t.Errorf(format, args...)
	}
}

// fakeTools puts programs of these scripts before all others, and has systemd run. It returns their directory.
func fakeTools(t *testing.T, scripts map[string]string) string {
	t.Helper()
	tools := t.TempDir()
	for tool, text := range scripts {
		must(t, os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	withSystemd(t, tools)
	return tools
}

// withSystemd sets the path that exists where systemd runs.
func withSystemd(t *testing.T, path string) {
	before := systemd
	systemd = path
	t.Cleanup(func() { systemd = before })
}

func wantIn(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		failIf(t, !strings.Contains(text, part), "%q is not in:\n%s", part, text)
	}
}
