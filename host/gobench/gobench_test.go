package gobench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"tsduel/host/proc"
	"tsduel/host/record"
)

const small = `package work

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

var sink uint64
var kept [][]byte

func spin(n int) {
	for range n {
		sink ^= sink<<13 + 88172645463325252
	}
}

func TestMain(m *testing.M) {
	if _, err := os.Stat("left-behind"); err == nil || os.Getenv("GOGC") != "" {
		panic("the directory or the environment is not clean")
	}
	pid, _ := os.ReadFile(os.Getenv("TSDUEL_SCRATCH") + "/escaped")
	if running, _ := os.ReadFile("/proc/" + string(pid) + "/cmdline"); len(running) > 0 && len(pid) > 0 {
		panic("what another process has left runs beside this one")
	}
	fmt.Printf("at=%d\n", time.Now().UnixNano())
	file, _ := os.Stat(os.Args[0])
	fmt.Printf("file=%s %d\n", os.Args[0], file.ModTime().UnixNano())
	os.Exit(m.Run())
}

var allocs, _ = strconv.Atoi(os.Getenv("ALLOCS")) // of the revision

func BenchmarkWork(b *testing.B) {
	b.Run("spin", func(b *testing.B) {
		for range b.N { spin(1000) }
	})
	b.Run("alloc", func(b *testing.B) {
		for range b.N {
			kept = kept[:0]
			for range allocs { kept = append(kept, make([]byte, 1024)) }
		}
	})
	if allocs > 10 {
		b.Run("new", func(b *testing.B) { for range b.N { spin(10) } })
	}
}

func BenchmarkReads(b *testing.B) {
	text, err := os.ReadFile("testdata/input")
	if err != nil { b.Fatal(err) }
	if err := os.WriteFile("left-behind", text, 0o400); err != nil { b.Fatal(err) }
	for range b.N { sink += uint64(len(text)) }
	fmt.Printf("rows=%d\n", len(text))
	b.ReportMetric(0, "empty/op")
}

func BenchmarkSlow(b *testing.B) {
	b.Run("setup", func(b *testing.B) {
		time.Sleep(50*time.Millisecond)
		b.ResetTimer()
		for range b.N { spin(1000) }
	})
}

func BenchmarkEscapes(b *testing.B) {
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil { b.Fatal(err) }
	_ = os.WriteFile(os.Getenv("TSDUEL_SCRATCH") + "/escaped", []byte(strconv.Itoa(c.Process.Pid)), 0o600)
	for range b.N { spin(10) }
}

func BenchmarkFails(b *testing.B)  { b.Fatal("the cluster is down") }
func BenchmarkSkips(b *testing.B)  { b.Skip("needs an S3 bucket") }
func BenchmarkPanics(b *testing.B) { panic("index out of range") }
func BenchmarkLeaves(b *testing.B) { os.Exit(0) }
func BenchmarkSleeps(b *testing.B) { time.Sleep(time.Hour) }
func BenchmarkCommand(b *testing.B) {
	if b.N == 1 { exec.Command("timeout", "4", "sh", "-c", "while :; do :; done").Run() }
}
func BenchmarkOdd(b *testing.B) {
	if allocs%2 == 1 { panic("odd") }
	for range b.N { spin(10) }
}
func BenchmarkZ(b *testing.B)      { for range b.N { spin(10) } }
func BenchmarkSpins(b *testing.B)  { for { spin(1000) } }
func BenchmarkPrints(b *testing.B) { for { println("of no use to anybody") } }
`

// built is the directory of the test binary, "" before it is built.
var built string

// binary is the test binary of both revisions, which differ in ALLOCS.
var binary = sync.OnceValues(func() (path string, err error) {
	built, err = os.MkdirTemp("", "gobench-")
	source, path := filepath.Join(built, "source"), filepath.Join(built, "binary")
	for path, text := range map[string]string{
		filepath.Join(source, "go.mod"):                   "module example.org/small\n\ngo 1.24\n",
		filepath.Join(source, "work", "work_test.go"):     small,
		filepath.Join(built, "files/work/testdata/input"): "four\n",
	} {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
	build := exec.Command("go", "test", "-vet=off", "-ldflags=-s -w", "-c", "-o", path, "./work")
	build.Dir = source
	if said, wrong := build.CombinedOutput(); wrong != nil {
		err = errors.Join(err, wrong, errors.New(string(said)))
	}
	return path, err
})

func TestMain(m *testing.M) {
	canary = func(string) (*record.Canary, error) { return &record.Canary{CPUS: 1}, nil }
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// run is a run of a baseline and candidates with the benchmarks of a pattern.
type run struct {
	*testing.T
	record.Spec
}

func newRun(t *testing.T, bench string, allocs ...int) *run {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts benchmarks")
	}
	t.Setenv("GOGC", "50") // nothing of ours may shape what is measured
	path, err := binary()
	must(t, err)
	plan := &record.Plan{Kind: "gobench", GoBench: &record.GoBench{Seconds: 0.02, CPU: new(2)},
		Watchdog: record.Watchdog{IdleS: 60, SilentS: 60}}
	builds := &record.Builds{Variants: map[string]record.Build{}}
	order := []string{"baseline", "candidate", "third"}[:len(allocs)]
	for i, name := range order {
		plan.Variants = append(plan.Variants, record.Variant{Name: name, Package: "./work", Bench: bench,
			Components: []record.Component{{Role: "bench", Env: map[string]string{"ALLOCS": strconv.Itoa(allocs[i])}}}})
		builds.Variants[name] = record.Build{Binary: path}
	}
	dir, scratch := t.TempDir(), t.TempDir()
	raw := filepath.Join(dir, "raw")
	must(t, os.Mkdir(raw, 0o755))
	return &run{t, record.Spec{Plan: plan, RunDir: dir, Raw: raw, Scratch: scratch, Builds: builds,
		Row: record.BlockRow{Coins: record.Coins{Order: order}}, Events: record.NewEvents(dir, raw, true)}}
}

// block runs a block as the driver does.
func (r *run) block(number int, kind string) *record.Block {
	r.Helper()
	r.Row.Block, r.Row.Kind = number, kind
	r.Dir = filepath.Join(r.Raw, r.Row.Name())
	_ = os.RemoveAll(r.Dir)
	b, err := Run(r.Context(), r.Spec)
	must(r, err)
	return b
}

// begin runs the warm-up and calibrates.
func (r *run) begin() *run {
	r.Helper()
	r.good(r.block(0, "warmup"))
	r.calibrate()
	return r
}

func (r *run) calibrate() {
	r.Helper()
	c, err := Calibrate(r.Plan, filepath.Join(r.Raw, "000"))
	must(r, err)
	r.Calibration = c
}

// refused is the error of a warm-up that ends without a block.
func (r *run) refused(ctx context.Context) error {
	r.Helper()
	r.Row.Kind, r.Dir = "warmup", filepath.Join(r.Raw, "000.partial")
	b, err := Run(ctx, r.Spec)
	if b != nil && err == nil {
		r.Errorf("got %+v", b)
	}
	return err
}

func (r *run) good(b *record.Block) *record.Block {
	r.Helper()
	if b.Status != record.OK {
		r.Fatal(b.Failures)
	}
	return b
}

func (r *run) text(name string) string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.Raw, name))
	must(r, err)
	return string(text)
}

// Each benchmark runs once in its own process and clean directory, with equal operations for all variants, in
// an order drawn for the block. Benchmarks of one variant alone run too.
func TestMeasuredBlock(t *testing.T) {
	r := newRun(t, "^Benchmark(Work|Reads)$", 10, 11).begin()
	counts := map[string]int64{}
	for _, row := range r.Calibration.Rows {
		if counts[row.Row] = row.Count; row.Parts != 1 {
			t.Errorf("a row of %v is in turns, too short for them", row)
		}
	}
	orders := map[string]bool{}
	for number := 1; number <= 2; number++ {
		b := r.good(r.block(number, "measured"))
		for variant, processes := range map[string]int{"baseline": 3, "candidate": 4} {
			dir := r.Row.Name() + "/" + variant + "/"
			text := r.text(dir + "bench.txt")
			if got := strings.Count(text, "\nPASS\n"); got != processes {
				t.Errorf("%d processes of %s, want %d:\n%s", got, variant, processes, text)
			}
			for line := range strings.Lines(r.text(dir + "outputs.tsv")) {
				f := strings.Split(strings.TrimSpace(line), "\t")
				from, _ := strconv.Atoi(f[1])
				to, _ := strconv.Atoi(f[2])
				of := results(text[from:to], 2)
				if len(of) != 1 || of[0].name != "Benchmark"+f[0] || of[0].count != counts[f[0]] {
					t.Errorf("bytes %s of %s hold %v, want %d operations", f[1:], dir, of, counts[f[0]])
				}
			}
		}
		var order []string
		for _, p := range b.Phases {
			if p.Variant == "baseline" {
				order = append(order, p.QueryType)
			}
			if p.Part != "bench" || p.End <= p.Begin || p.Noise == nil || p.ClientUserS+p.ClientSystemS <= 0 {
				t.Errorf("phase %+v", p)
			}
		}
		orders[strings.Join(order, " ")] = true
		text, err := json.Marshal(b)
		missing := regexp.MustCompile(`"[a-z_]+":null`).FindAllString(strings.ReplaceAll(string(text), `"duel":null`, ""), -1)
		if err != nil || strings.Contains(strings.Join(missing, ""), "pids") ||
			slices.Contains(missing, `"query_types":null`) {
			t.Errorf("the record lacks %v", missing)
		}
		if len(b.Checks) != 16 || b.Solo["candidate"].Canary == nil || len(b.Ratios["candidate"]) == 0 || b.BootID == "" ||
			b.TimedS <= 0 {
			t.Errorf("block %+v", b)
		}
	}
	if len(orders) < 2 {
		t.Errorf("one order for all blocks: %v", orders)
	}
	if left, _ := filepath.Glob(r.Scratch + "/bench/*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// A benchmark with a short set-up runs in short turns, B C C B. One with a long set-up does not. Each process runs its
// own copy of its binary, under the same path for all variants, even with one binary (A/A).
func TestTurns(t *testing.T) {
	r := newRun(t, "^Benchmark(Work|Slow)$/^(spin|setup)$", 10, 10)
	r.Plan.GoBench.Seconds = 0.35
	r.begin()
	for _, variant := range r.Row.Order {
		path := filepath.Join(r.Raw, "000", variant, setupFile)
		measured := map[string]float64{}
		must(t, record.ReadJSON(path, &measured))
		for name, seconds := range measured {
			if seconds <= 0 || name == "BenchmarkSlow/setup" && seconds < 0.05 || len(measured) != 2 {
				t.Errorf("set-ups: %v", measured)
			}
		}
		// On a busy machine they may be longer than they should be.
		must(t, record.WriteJSON(path, map[string]float64{"BenchmarkWork/spin": 0.001, "BenchmarkSlow/setup": 60}))
	}
	r.calibrate()
	parts := map[string]int{}
	for i, row := range r.Calibration.Rows {
		parts[row.Row], r.Calibration.Rows[i].Count = row.Parts, 100 // what they take is not asked
	}
	if parts["Work/spin"] < 4 || parts["Slow/setup"] != 1 {
		t.Fatalf("turns: %v of %+v", parts, r.Calibration.Rows)
	}
	b := r.good(r.block(1, "measured"))
	at, files := map[string]string{}, map[string]bool{}
	stamp := regexp.MustCompile(`(?m)^at=(\d+)\nfile=(.*) (\d+)$`)
	for variant, letter := range map[string]string{"baseline": "B", "candidate": "C"} {
		for process := range strings.SplitSeq(r.text("001/"+variant+"/bench.txt"), "PASS\n") {
			match := stamp.FindStringSubmatch(process)
			if match == nil {
				continue
			}
			if match[2] != filepath.Join(placesDir(&r.Spec), "01", "01", "program") || files[match[3]] {
				t.Errorf("%s runs %s", variant, match[0])
			}
			files[match[3]] = true
			if strings.Contains(process, "BenchmarkWork/spin-2 ") {
				at[match[1]] = letter
			}
		}
		if got := strings.Count(r.text("001/"+variant+"/outputs.tsv"), "Work/spin\t"); got != parts["Work/spin"] {
			t.Errorf("%d results of %s, want %d", got, variant, parts["Work/spin"])
		}
	}
	order := ""
	for _, time := range slices.Sorted(maps.Keys(at)) {
		order += at[time]
	}
	if !strings.HasPrefix(order, "BCCBCBBC") { // first to be asked: B C C B
		t.Errorf("processes ran in the order %s", order)
	}
	if _, err := os.Stat(placesDir(&r.Spec)); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
	i := slices.IndexFunc(b.Phases, func(p record.Phase) bool { return p.QueryType == "Work/spin" })
	if first := b.Phases[i]; first.Variant != "" ||
		first.Count != 2*int64(parts["Work/spin"])*r.Calibration.Rows[0].Count {
		t.Errorf("phase of the turns: %+v", first)
	}
	r.Plan.GoBench.Alternate = new(false)
	if r.calibrate(); r.Calibration.Rows[0].Parts != 1 {
		t.Errorf("alternate: false gives %+v", r.Calibration)
	}
}

// What a benchmark has started in a session of its own does not run beside the next process, nor afterwards.
func TestNothingRunsBesideTheNextTurn(t *testing.T) {
	r := newRun(t, "^BenchmarkEscapes$", 10, 11).begin()
	r.good(r.block(1, "measured"))
	if left, err := proc.EndStrays(r.Scratch); left > 0 || err != nil {
		t.Errorf("%d are left, %v", left, err)
	}
}

// A benchmark that fails, skips, ends early or prints nothing fails its variant, with the reason.
func TestWhatMeasuredNothing(t *testing.T) {
	for name, want := range map[string]string{
		"Fails":  "ended with exit code 1: work_test.go:[0-9]+: the cluster is down",
		"Skips":  "was not measured: .*needs an S3 bucket",
		"Panics": "ended with exit code 2: panic: index out of range",
		"Leaves": "ended without PASS: the test binary left before",
		"Nothing": "matches no benchmark of baseline; " +
			"there are: BenchmarkCommand, BenchmarkEscapes, BenchmarkFails, BenchmarkLeaves, .*BenchmarkWork",
		"Sleeps": `hangs: no output and no CPU for 2 s \(watchdog.idle_s\)`,
		"Prints": "wrote [0-9]+ MiB, and 4 MiB are the most: its output is cut",
		"Spins":  `did not end: no output for 2 s \(watchdog.silent_s\)`,
	} {
		t.Run(name, func(t *testing.T) {
			bench, what := "^Benchmark"+name+"$", "the warm-up of"
			r := newRun(t, bench, 10)
			switch name {
			case "Sleeps":
				r.Plan.Watchdog.IdleS = 2
			case "Spins":
				r.Plan.Watchdog.SilentS = 2
			case "Nothing":
				what = "the pattern"
			case "Prints":
				defer func(usual int64) { proc.MostLog = usual }(proc.MostLog)
				proc.MostLog = 4 << 20
			}
			b := r.block(0, "warmup")
			if len(b.Failures) != 1 || b.Status != record.Failed {
				t.Fatalf("block %+v", b)
			}
			got := b.Failures[0]
			why := regexp.MustCompile(regexp.QuoteMeta(what+" "+bench) + " " + want)
			if !why.MatchString(got.Message) || got.Variant != "baseline" || got.Phase != "find" {
				t.Errorf("got %+v, want %s", got, want)
			}
			if stacks := r.text("000/baseline/bench.stderr"); strings.Contains(want, "watchdog") &&
				!strings.Contains(stacks, "goroutine ") {
				t.Errorf("no stacks in %s", stacks)
			}
			output := r.text("000/baseline/bench.stderr")
			if name == "Prints" && !strings.HasSuffix(output, "\n[tsduel has cut the rest of this output]\n") {
				t.Error("the output is not cut")
			}
			if left, _ := exec.Command("pgrep", "-f", placesDir(&r.Spec)+".*"+regexp.QuoteMeta(bench)).Output(); len(left) > 0 {
				t.Errorf("still running: %s", left)
			}
		})
	}
}

// Its own process waits, and uses no CPU.
func TestABenchmarkThatRunsAProgramIsNotTakenForOneThatHangs(t *testing.T) {
	r := newRun(t, "^BenchmarkCommand$", 10)
	r.Plan.Watchdog.IdleS = 2
	if b := r.block(0, "warmup"); len(b.Failures) != 0 {
		t.Errorf("%+v", b.Failures)
	}
}

// A rule of require is checked after each process. The block fails at once, and the check says what is
// missing.
func TestRequired(t *testing.T) {
	r := newRun(t, "^BenchmarkReads$", 10, 11).begin()
	r.Plan.GoBench.Require = []record.Require{{Output: "rows=([0-9]+)"}, {Metric: "ns/op"}}
	r.good(r.block(0, "warmup"))
	r.good(r.block(1, "measured"))
	for _, rule := range []record.Require{{Metric: "empty/op"}, {Output: "lines=([0-9]+)"}} {
		r.Plan.GoBench.Require = []record.Require{rule}
		want := "BenchmarkReads: " + cmp.Or(rule.Metric, rule.Output) + " is not there, or not above zero"
		b := r.block(0, "warmup")
		if c := b.Checks[2]; len(b.Failures) != 2 || b.Failures[0].Message != want || c.Check != "bench_required" ||
			c.OK || c.Message != want {
			t.Errorf("%+v: failures %+v, checks %+v", rule, b.Failures, b.Checks)
		}
		if b = r.block(1, "measured"); len(b.Failures) != 1 || len(b.Phases) != 0 { // the other side is not even begun
			t.Errorf("%+v: failures %+v, phases %+v", rule, b.Failures, b.Phases)
		}
	}
}

// A failed candidate leaves the block, and the others go on. After a failed baseline nothing goes on.
func TestFailureIsItsVariantsAlone(t *testing.T) {
	r := newRun(t, "^BenchmarkWork$/^(spin|alloc)$", 10, 11, 10).begin()
	for i, row := range r.Calibration.Rows {
		if row.Row == "Work/alloc" {
			r.Calibration.Rows[i].Names["candidate"] = "BenchmarkPanics"
		}
	}
	b := r.block(1, "measured")
	if len(b.Failures) != 1 || b.Failures[0].Variant != "candidate" || len(b.Ratios["third"]) == 0 ||
		len(b.Ratios["candidate"]) != 0 {
		t.Errorf("block %+v", b)
	}
	for i := range r.Calibration.Rows {
		r.Calibration.Rows[i].Names["baseline"] = "BenchmarkPanics"
	}
	b = r.block(2, "measured")
	if len(b.Failures) != 1 || slices.ContainsFunc(b.Phases, func(p record.Phase) bool { return p.Variant == "third" }) {
		t.Errorf("without a baseline: %+v", b)
	}
}

// An interruption ends the processes, and is no failure of a benchmark.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := newRun(t, "^BenchmarkSpins$", 10).refused(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A directory without our marker is not wiped, and is a UserError.
func TestForeignDirectory(t *testing.T) {
	r := newRun(t, "^BenchmarkWork$", 10)
	mine := filepath.Join(r.Scratch, "bench", "mine")
	must(t, os.MkdirAll(mine, 0o755))
	stop, ok := errors.AsType[*record.Stop](r.refused(t.Context()))
	if !ok || stop.Code != record.ExitUser || !strings.Contains(stop.Message, "is not marked as ours") {
		t.Errorf("got %v", stop)
	}
	_, err := os.Stat(mine)
	must(t, err)
}

// Profiles have the rows of all variants, with equal operations, merged into one by variant and kind.
func TestProfiles(t *testing.T) {
	r := newRun(t, "^BenchmarkWork$", 10, 11).begin()
	r.Plan.GoBench.Profile = []string{"cpu", "mem"}
	for i := range r.Calibration.Rows { // not as many as this machine does in a time: 20,000 allocate 200 MB
		r.Calibration.Rows[i].Count, r.Calibration.Rows[i].Parts = 20_000, 1
	}
	must(t, Profile(t.Context(), r.Spec))
	found, _ := filepath.Glob(filepath.Join(r.Raw, "profiles", "*"))
	want := []string{"bench.stderr", "bench.txt", "profiles.json"}
	for _, file := range []string{"baseline.cpu", "baseline.mem", "candidate.cpu", "candidate.mem"} {
		want = append(want, file+".pprof", file+".stacks.json.gz")
	}
	for i, name := range want {
		want[i] = filepath.Join(r.Raw, "profiles", name)
	}
	if slices.Sort(want); !slices.Equal(found, want) {
		t.Errorf("there are %v", found)
	}
	bytes := map[string]float64{}
	for _, variant := range []string{"baseline", "candidate"} {
		p, err := profile.ParseData([]byte(r.text("profiles/" + variant + ".mem.pprof")))
		must(t, err)
		for _, s := range p.Sample {
			if slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
				return strings.Contains(l.Line[0].Function.Name, "BenchmarkWork.func2")
			}) {
				bytes[variant] += float64(s.Value[1])
			}
		}
	}
	if ratio := bytes["candidate"] / bytes["baseline"]; ratio < 1.04 || ratio > 1.18 {
		t.Errorf("the candidate allocates %.3f times as much, want 1.1: %v", ratio, bytes)
	}
	if strings.Contains(r.text("profiles/bench.txt"), "BenchmarkWork/new") {
		t.Error("a row of one side was profiled")
	}
}

func TestASecretThatABenchmarkPrintsIsMasked(t *testing.T) {
	cache, dir := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(cache, "secrets"), 0o700))
	must(t, os.WriteFile(filepath.Join(cache, "secrets/hidden-0000000a"), []byte("pl4nt3d-secret"), 0o600))
	plan := &record.Plan{GoBench: &record.GoBench{}, Variants: []record.Variant{{Name: "a",
		Components: []record.Component{{Env: map[string]string{"KEY": "hidden-0000000a"}}}}}}
	hidden, err := plan.Reveal(cache)
	must(t, err)
	s, err := open(&record.Spec{Plan: plan, Builds: &record.Builds{}, Hidden: hidden, Scratch: t.TempDir()}, "a", dir)
	must(t, err)
	for _, file := range []*os.File{s.stdout, s.stderr} {
		_, err := file.WriteString("the key is pl4nt3d-secret")
		must(t, err)
	}
	must(t, s.close())
	for _, name := range []string{"bench.txt", "bench.stderr"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "the key is hidden-0000000" {
			t.Errorf("%q, %v", text, err)
		}
	}
}
