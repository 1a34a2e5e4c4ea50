package block

import (
	"compress/gzip"
	"encoding/gob"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/timescale/tsbs/pkg/query"
	"golang.org/x/sys/unix"

	"tsduel/host/exchange"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// toy says what is wrong with a toy database: wrong=N empty=N error=N die=N (each Nth query, or the Nth),
// merging, busy, warm (it starts with answers), later (it works after a load), deaf (it ignores a request to
// merge).
const toy = "TSDUEL_TOY"

func init() { // the test's binary is the database, too
	if wrong, ok := os.LookupEnv(toy); ok && len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-storageDataPath=") {
		database(wrong)
	}
	idleLook, putOff = 200*time.Millisecond, 200*time.Millisecond
}

func database(wrong string) {
	at := func(name string, n int64) bool {
		for word := range strings.FieldsSeq(wrong) {
			var every int64
			if count, _ := fmt.Sscanf(word, name+"=%d", &every); count == 1 && n%every == every-1 {
				return true
			}
		}
		return false
	}
	has := func(word string) int { return strings.Count(" "+wrong+" ", " "+word+" ") }
	dir := strings.TrimPrefix(os.Args[1], "-storageDataPath=")
	if _, err := os.Stat(filepath.Join(dir, "cache")); err == nil {
		fmt.Println("began with a cache")
	}
	var queries, lines, merges atomic.Int64
	var last atomic.Pointer[time.Timer]
	http.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/internal/force_flush", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/internal/force_merge", func(http.ResponseWriter, *http.Request) { merges.Add(1) })
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "vm_parts %d\n", max(1, int64(2+has("deaf"))-merges.Load()))
		fmt.Fprintf(w, "vm_rows_read_per_query_sum %d\nvm_active_merges "+
			"%d\nvm_cache_entries{type=\"promql/rollupResult\"} %d\nvm_rows_inserted_total{type=\"influx\"} %d\n",
			queries.Load()*int64(1-has("blind")), has("merging"), 7*has("warm"), lines.Load())
	})
	http.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		lines.Add(int64(strings.Count(string(body), "\n")))
		if has("later") > 0 { // a second of work, three seconds after the last batch
			timer := time.AfterFunc(3*time.Second, func() { burn(time.Second) })
			if before := last.Swap(timer); before != nil {
				before.Stop()
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})
	http.HandleFunc("/q", func(w http.ResponseWriter, r *http.Request) {
		n, value, series := queries.Add(1)-1, "2", ""
		fmt.Println("asked", r.URL.RawQuery)
		if at("die", n) {
			fmt.Println("fatal error: out of toys")
			syscall.Exit(2) // as in TestMain
		}
		if at("error", n) {
			http.Error(w, "no more", http.StatusInternalServerError)
			return
		}
		if at("wrong", n) {
			value = "3"
		}
		if !at("empty", n) {
			series = `{"metric":{},"values":[[1,"` + value + `"]]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]},"stats":{"executionTimeMsec":%d}}`,
			series, n)
	})
	if has("busy") > 0 {
		go func() {
			for range time.Tick(10 * time.Millisecond) {
				burn(3 * time.Millisecond / 2)
			}
		}()
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		address := os.Args[len(os.Args)-1]
		fmt.Println(http.ListenAndServe(strings.TrimPrefix(address, "-httpListenAddr="), nil))
		os.Exit(1)
	}()
	<-stop
	_ = os.MkdirAll(filepath.Join(dir, "cache"), 0o755)
	_ = os.WriteFile(filepath.Join(dir, "cache", "rollup"), []byte("answers"), 0o644)
	syscall.Exit(0)
}

// burn uses so much CPU time.
func burn(length time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, -15) // so that it gets its share on a busy machine, too
	used := func() time.Duration {
		var clock unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &clock)
		return time.Duration(clock.Nano())
	}
	for begin := used(); used()-begin < length; {
	}
}

var ports atomic.Int32

// toys are variants of the toy database, with what is wrong with each, ready for a duel of block 2.
func toys(t *testing.T, wrong ...string) *frame {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts databases")
	}
	self, err := os.Executable()
	check(t, err)
	root := t.TempDir()
	target := record.Target{Name: "toy", DataFormat: "f", QueryFormat: "f", Answers: "prometheus",
		Volatile: `"executionTimeMsec":\s*\d+`, WritePath: "/write",
		Counters: map[string]record.Counter{"rows_read": {Name: "vm_rows_read_per_query_sum"},
			"active_merges": {Name: "vm_active_merges"},
			"answers_kept":  {Name: "vm_cache_entries"}, "inserted": {Name: "vm_rows_inserted_total"}},
		Quiet: []string{"active_merges"}}
	spec := record.Spec{RunDir: root, Raw: filepath.Join(root, "raw"), Dir: filepath.Join(root, "raw", "002"),
		Scratch:  filepath.Join(root, "scratch"),
		Events:   record.NewEvents(root, filepath.Join(root, "raw"), true),
		Row:      record.BlockRow{Block: 2, Turn: 2, Kind: "measured", QueryTypes: []string{"t"}},
		Builds:   &record.Builds{Variants: map[string]record.Build{}},
		Workload: &record.Workload{}, Calibration: &record.Calibration{Counts: map[string]int{"t": 40, "u": 30}},
		Plan: &record.Plan{Targets: map[string]record.Target{"victoriametrics": target},
			Host:     record.HostSettings{Port: 20000 + 100*int(ports.Add(1))},
			Watchdog: record.Watchdog{HealthS: 20, LoadStallS: 20, QueryStallS: 20, StopS: 20, IdleTimeoutS: 20},
			Queries:  record.Queries{Cache: "as-loaded"},
			Workload: &record.WorkloadPlan{BatchSize: 100, Samples: 250, Lines: 250},
			Settle:   record.Settle{TimeoutS: 20},
			Duel: record.Duel{Seconds: 0.2, Least: 8, LongestS: 1, Fewest: 4, InFlight: 1, IdleS: 0.05,
				MostDifferences: 10}}}
	f := newFrame(spec, &machines{hosts: map[string]machine.Machine{"": machine.NewHere(t.Context(), "127.0.0.1")}}, nil)
	if f.targets, err = filepath.Abs(filepath.Join("..", "..", "scripts", "targets")); err != nil {
		t.Fatal(err)
	}
	for i, what := range wrong {
		name := []string{"baseline", "candidate", "third"}[i]
		f.Row.Order = append(f.Row.Order, name)
		v := record.Variant{Name: name, Target: "victoriametrics",
			Components: []record.Component{{Role: "server", Env: map[string]string{toy: what}}}}
		f.Plan.Variants = append(f.Plan.Variants, v)
		f.Builds.Variants[name] = record.Build{Binary: self}
		f.variants[name] = newVariant(f, v)
		f.variants[name].data = filepath.Join(f.Scratch, "data", name)
		for _, dir := range []string{f.variants[name].dir, filepath.Join(f.variants[name].data, "server"), f.emptyDir(),
			filepath.Join(root, "raw")} {
			check(t, os.MkdirAll(dir, 0o755))
		}
	}
	for _, name := range []string{"t", "u"} {
		path := filepath.Join(root, name+".gob")
		file, err := os.Create(path)
		check(t, err)
		encoder := gob.NewEncoder(file)
		for n := range 200 {
			check(t, encoder.Encode(&query.HTTP{Method: []byte("GET"), Path: fmt.Appendf(nil, "/q?%s%d", name, n)}))
		}
		check(t, file.Close())
		f.Workload.Queries = append(f.Workload.Queries, record.QueryFile{Format: "f", Type: name, Path: path, Count: 200})
	}
	*f.block = *record.NewBlock(f.Row)
	t.Cleanup(func() {
		for _, v := range f.variants {
			if err := v.close(true); err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

func fight(t *testing.T, f *frame) *record.Block {
	t.Helper()
	check(t, runDuel(t.Context(), f, "", f.Row.QueryTypes, &f.block.Duel))
	return f.block
}

func rows(t *testing.T, f *frame, name string) (lines []string) {
	t.Helper()
	file, err := os.Open(filepath.Join(f.Dir, "duel", name))
	check(t, err)
	defer file.Close()
	unpack, err := gzip.NewReader(file)
	check(t, err)
	text, err := io.ReadAll(unpack)
	check(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func asked(t *testing.T, f *frame, name string) (queries []string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(f.Dir, name, "duel-server.log"))
	check(t, err)
	if strings.Contains(string(log), "began with a cache") {
		t.Errorf("%s began with a cache", name)
	}
	for line := range strings.Lines(string(log)) {
		if q, ok := strings.CutPrefix(line, "asked "); ok {
			queries = append(queries, strings.TrimSpace(q))
		}
	}
	return queries
}

func noted(t *testing.T, f *frame, what string) bool {
	t.Helper()
	events, err := os.ReadFile(filepath.Join(f.RunDir, "raw", "events.jsonl"))
	return err == nil && strings.Contains(string(events), what)
}

func TestADuelAsksEverySideTheSameSliceAndKeepsAll(t *testing.T) {
	f := toys(t, "", "")
	f.Row.Order = []string{"candidate", "baseline"}
	f.Row.QueryTypes, f.Host.Pin = []string{"u", "t"},
		record.Pin{Mode: "fixed", Server: proc.Allowed()[:1], Client: proc.Allowed()[:1]}
	before := proc.Allowed()
	b := fight(t, f)
	if b.Status != record.OK || b.Void != "" || !slices.Equal(before, proc.Allowed()) {
		t.Fatalf("%+v, void: %q, on CPUs %v", b.Failures, b.Void, proc.Allowed())
	}
	var want []string // block 2 of 40 and of 30
	for n := range 30 {
		want = append(want, fmt.Sprintf("u%d", 60+n))
	}
	for n := range 40 {
		want = append(want, fmt.Sprintf("t%d", 80+n))
	}
	for _, name := range []string{"baseline", "candidate"} {
		if got := asked(t, f, name); !slices.Equal(got, want) {
			t.Errorf("%s was asked %v", name, got)
		}
		if b.Duel.RSSBytes[name] == 0 || b.Duel.RSSPeakBytes[name] < b.Duel.RSSBytes[name] ||
			!b.Duel.Start[name].CachesDeleted {
			t.Errorf("%s: %+v", name, b.Duel)
		}
	}
	lines := rows(t, f, "exchanges.csv.gz")
	if len(lines) != 71 || lines[0] != "query_type,sitting,k,order,bytes,baseline_ns,candidate_ns" ||
		!strings.HasPrefix(lines[2], "u,0,1,01,") || len(strings.Split(lines[70], ",")) != 7 {
		t.Errorf("%d lines: %q", len(lines), lines[:3])
	}
	u := b.Duel.Types[0]
	if u.QueryType != "u" || u.Exchanges != 30 || u.Compared != 30 || u.FirstQuery != 60 || u.CPUNS["candidate"] <= 0 ||
		u.ClientCPUNS <= 0 || u.Stopped != "" || u.Instructions != nil || u.Counters["candidate"]["rows_read"] <= 0 {
		t.Errorf("%+v", u)
	}
	if len(b.Duel.Idle) != 2 || b.Duel.Idle[1].When != "after" || b.Duel.Idle[0].CPUNS["baseline"] < 0 ||
		b.Ratios["candidate"]["duel_typical_ms"] == 0 || b.Ratios["candidate"]["duel_cpu_us"] == 0 {
		t.Errorf("%+v %+v", b.Duel.Idle, b.Ratios)
	}
	var phases, checks []string
	for _, p := range b.Phases {
		phases = append(phases, p.Phase+p.QueryType)
	}
	for _, c := range b.Checks {
		checks = append(checks, c.Check)
	}
	if b.Checks[0].Variant != "candidate" {
		t.Error("the candidate was not started first, as the block's order says")
	}
	if got := strings.Join(phases, " "); got != "start idlebefore exchangeu exchanget idleafter stop" {
		t.Error(got)
	}
	for check, count := range map[string]int{"equal_start": 4, "exchanges_same": 2, "exchanges_answered": 2,
		"exchanges_empty": 4, "rows_read": 4, "same_process": 2, "listens_on_loopback": 2} {
		if got := strings.Count(strings.Join(checks, " "), check); got != count {
			t.Errorf("%d checks %s", got, check)
		}
	}
}

func TestCountersOfADuelAreReadOnceForAllTypes(t *testing.T) {
	t.Parallel()
	f := toys(t, "", "")
	f.Plan.Duel.Counters = "duel"
	f.Row.QueryTypes = []string{"u", "t"}
	b := fight(t, f)
	succeeded(t, b)
	for _, name := range []string{"baseline", "candidate"} {
		// of 30 and 40 queries
		if rows := b.Duel.Counters[name]["rows_read"]; rows < 70 || len(b.Duel.Types[0].Counters) != 0 {
			t.Errorf("%s: %v rows, %+v", name, rows, b.Duel)
		}
	}
	var read []string
	for _, c := range b.Checks {
		if c.Check == "rows_read" {
			read = append(read, c.Variant+c.QueryType)
		}
	}
	if slices.Sort(read); !slices.Equal(read, []string{"baseline", "candidate"}) {
		t.Errorf("rows_read was checked of %q", read)
	}
}

func TestASideThatKeptItsAnswersVoidsTheBlock(t *testing.T) {
	t.Parallel()
	// Kept where the server finds it, by an adapter that forgets nothing.
	f := toys(t, "", "")
	targets := t.TempDir()
	for _, verb := range []string{"start", "endpoints", "ready", "size", "stop", "forget"} {
		text := fmt.Sprintf("#!/bin/sh\nexec %s/victoriametrics/%s \"$@\"\n", f.targets, verb)
		if verb == "forget" {
			text = "#!/bin/sh\n"
		}
		check(t, os.MkdirAll(filepath.Join(targets, "victoriametrics"), 0o755),
			os.WriteFile(filepath.Join(targets, "victoriametrics", verb), []byte(text), 0o755))
	}
	f.targets = targets
	cache := filepath.Join(f.variants["candidate"].data, "server", "cache")
	check(t, os.MkdirAll(cache, 0o755), os.WriteFile(filepath.Join(cache, "rollup"), make([]byte, 5000), 0o644))
	b := fight(t, f)
	if !strings.HasPrefix(b.Void, "unequal starts: candidate began with ") ||
		!strings.Contains(b.Void, "bytes of answers on disk") || len(b.Duel.Types) != 0 ||
		b.Duel.Start["candidate"].CachesDeleted {
		t.Errorf("void: %q, %+v", b.Void, b.Duel)
	}
	// Kept where nobody sees it: the server says it.
	b = fight(t, toys(t, "", "warm"))
	if b.Void != "unequal starts: candidate began with 7 cached answers in its memory, which an earlier process left" ||
		len(b.Duel.Types) != 0 {
		t.Errorf("void: %q", b.Void)
	}
}

func TestWhatAVariantDoesWrongInADuelIsItsOwn(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{
		"wrong=20": "2 of 40 answers to t are not the same as baseline's, first in exchange 19: series {}: at 1 the " +
			"values are 2 and 3 (duel/differences.json has both)",
		"wrong=1": "10 of 10 answers to t are not the same as baseline's, first in exchange 0: series {}: at 1 the " +
			"values are 2 and 3 (duel/differences.json has both)",
		"error=20": "operation 19 (/q?t99): HTTP 500: no more; ",
		"die=20":   ") died: fatal error: out of toys",
		"blind":    "the queries of t read no data: vm_rows_read_per_query_sum did not move",
	} {
		f := toys(t, "", wrong)
		b := fight(t, f)
		if len(b.Failures) != 1 || b.Failures[0].Variant != "candidate" || b.Failures[0].Part != "duel" ||
			b.Failures[0].Phase != "exchange" || b.Failures[0].QueryType != "t" ||
			!strings.Contains(b.Failures[0].Message, want) {
			t.Errorf("%s: %+v", wrong, b.Failures)
		}
		var differences []record.Difference
		check(t, record.ReadJSON(filepath.Join(f.Dir, "duel", "differences.json"), &differences))
		if differs := strings.HasPrefix(wrong, "wrong"); differs != (len(differences) == 1) ||
			differs && (!strings.Contains(differences[0].Bodies[0], `[1,"2"]`) ||
				!strings.Contains(differences[0].Bodies[1], `[1,"3"]`)) {
			t.Errorf("%s: %+v", wrong, differences)
		}
	}
	// Both without data: each for itself.
	if b := fight(t, toys(t, "empty=40", "empty=40")); len(b.Failures) != 2 ||
		b.Failures[0].Message != "1 of 40 answers to t have no data" {
		t.Errorf("%+v", b.Failures)
	}
	// The others go on.
	f := toys(t, "", "die=20", "")
	f.Row.QueryTypes = []string{"t", "u"}
	b := fight(t, f)
	if len(b.Failures) != 1 || b.Failures[0].Variant != "candidate" || len(b.Duel.Types) != 2 ||
		b.Duel.Types[1].Compared != 30 || b.Ratios["third"]["duel_typical_ms"] == 0 ||
		b.Ratios["candidate"]["duel_typical_ms"] != 0 {
		t.Errorf("%+v %+v %+v", b.Failures, b.Duel.Types, b.Ratios)
	}
	if last := rows(t, f, "exchanges.csv.gz")[70]; !strings.Contains(last, ",,") || !strings.Contains(last, ",2") {
		t.Errorf("last exchange %q", last)
	}
}

func TestAServerThatIsNeverIdleIsNamed(t *testing.T) {
	t.Parallel()
	f := toys(t, "", "merging")
	f.Plan.Watchdog.IdleTimeoutS = 1.5
	if b := fight(t, f); b.Status != record.OK || !b.Duel.Start["candidate"].IdleTimeout ||
		b.Duel.Start["baseline"].IdleTimeout || !noted(t, f, "it was not idle within") {
		t.Errorf("%+v %+v", b.Failures, b.Duel.Start)
	}
	f = toys(t, "", "busy")
	b := fight(t, f)
	if s := b.Duel.Start["candidate"]; b.Status != record.OK || s.IdleTimeout || s.IdleS > 15 ||
		!noted(t, f, "of a CPU when nobody asks") {
		t.Errorf("%+v %+v", b.Failures, s)
	}
	if idle := b.Duel.Idle[0]; idle.CPUNS["candidate"] < 3*idle.CPUNS["baseline"] {
		t.Errorf("%+v", idle)
	}
}

func TestCachesAndBurstsAndCalibration(t *testing.T) {
	t.Parallel()
	cold := toys(t, "", "")
	cold.Plan.Queries.Cache, cold.Row.QueryTypes = "cold", []string{"t", "u"}
	if b := fight(t, cold); b.Status != record.OK || b.Duel.Start["candidate"].Restarts != 1 ||
		b.Duel.Start["baseline"].Restarts != 1 || len(asked(t, cold, "baseline")) != 70 ||
		b.Duel.Start["baseline"].IdleS <= 0 {
		t.Errorf("cold: %+v %+v", b.Failures, b.Duel.Start)
	}
	warm := toys(t, "", "")
	warm.Plan.Queries.Cache = "warm"
	if b := fight(t, warm); b.Status != record.OK || b.Duel.Types[0].Exchanges != 40 ||
		len(asked(t, warm, "candidate")) != 80 {
		t.Errorf("warm: %+v", b.Failures)
	}
	bursts := toys(t, "", "")
	bursts.Plan.Duel.InFlight, bursts.Calibration = 2, nil
	b := fight(t, bursts)
	if n := b.Duel.Types[0].Exchanges; b.Status != record.OK || n < 8 || n%8 != 0 || b.Duel.Types[0].FirstQuery != 0 {
		t.Errorf("bursts: %+v %+v", b.Failures, b.Duel.Types)
	}
	short := toys(t, "", "")
	short.Calibration.Counts["t"] = 70 // 140 to 210 of 200
	if b := fight(t, short); len(b.Failures) != 1 ||
		!strings.Contains(b.Failures[0].Message, "60 of 70 exchanges of t were compared: there are no more than 60 "+
			"operations") {
		t.Errorf("short: %+v", b.Failures)
	}
}

func TestIngestionIsExchangedOnDirectoriesOfItsOwn(t *testing.T) {
	t.Parallel()
	f := toys(t, "", "")
	batches(t, f)
	// As a block that was killed leaves it: what would be stored twice.
	left := f.dataDir("exchanged", "candidate")
	check(t, os.MkdirAll(left, 0o755), os.WriteFile(filepath.Join(left, "server"), nil, 0o644))
	b := fight(t, f)
	if b.Status != record.OK || len(b.Duel.Load) != 1 || b.Duel.Load[0].Exchanges != 3 || b.Duel.Load[0].Lines != 250 ||
		b.Duel.Load[0].CPUNS["baseline"] <= 0 ||
		b.Duel.Load[0].DrainedCPUNS["baseline"] <= b.Duel.Load[0].CPUNS["baseline"] ||
		b.Duel.Load[0].RSSPeakBytes["candidate"] == 0 || len(b.Duel.Types) != 1 {
		t.Fatalf("%+v %+v", b.Failures, b.Duel)
	}
	if lines := rows(t, f, "load.csv.gz"); lines[0] != "sitting,k,order,lines,baseline_ns,candidate_ns" ||
		!strings.HasPrefix(lines[3], "0,2,10,50,") {
		t.Errorf("%q", lines)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(left), "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// batches gives toys so many lines to load.
func batches(t *testing.T, f *frame) {
	t.Helper()
	path := filepath.Join(f.RunDir, "data")
	check(t, os.WriteFile(path, []byte(strings.Repeat("cpu,host=a value=1 1\n", 250)), 0o644))
	f.Plan.Duel.Load, f.Workload.Data = true, []record.DataFile{{Format: "f", Path: path, Lines: 250}}
}

func TestWorkThatIsPutOffCountsAsIngestion(t *testing.T) {
	defer func(usual time.Duration) { putOff = usual }(putOff)
	putOff = 6 * time.Second
	f := toys(t, "", "later")
	batches(t, f)
	b := fight(t, f)
	if b.Status != record.OK || len(b.Duel.Load) != 1 {
		t.Fatalf("%+v %+v", b.Failures, b.Duel)
	}
	load := b.Duel.Load[0]
	if early, late := load.CPUNS["candidate"]-load.CPUNS["baseline"],
		load.DrainedCPUNS["candidate"]-load.DrainedCPUNS["baseline"]; early > 5e8 || late < 7e8 {
		t.Errorf("%v more until the last batch, %v until all is done", time.Duration(early), time.Duration(late))
	}
}

func TestEverySittingHasItsShareAndItsOrders(t *testing.T) {
	t.Parallel()
	f := toys(t, "", "")
	batches(t, f)
	f.Plan.Duel.Sittings, f.Plan.Duel.LoadSittings, f.Plan.Design.Load = 4, 2, record.InDuel
	f.Row.QueryTypes, f.Plan.Duel.Counters = []string{"u", "t"}, "duel"
	f.Calibration.Counts = map[string]int{"t": 40, "u": 32}
	one, other := []string{"baseline", "candidate"}, []string{"candidate", "baseline"}
	f.Row.Coins = record.Coins{Order: one, Start: other, Read: one, Ask: other}
	*f.block = *record.NewBlock(f.Row)
	b := fight(t, f)
	if b.Status != record.OK || b.Void != "" || b.Duel.Sittings != 4 || len(b.Duel.Types) != 8 || len(b.Duel.Load) != 2 {
		t.Fatalf("%+v %q %+v", b.Failures, b.Void, b.Duel)
	}
	last := b.Duel.Types[7]
	if last.QueryType != "t" || last.Sitting != 3 || last.Exchanges != 10 || last.FirstQuery != 80+30 {
		t.Errorf("%+v", last)
	}
	var want []string // block 2 of 40 and of 32, a quarter in each sitting
	for sitting := range 4 {
		for _, of := range []struct {
			name         string
			first, share int
		}{{"u", 64, 8}, {"t", 80, 10}} {
			for n := range of.share {
				want = append(want, fmt.Sprintf("%s%d", of.name, of.first+sitting*of.share+n))
			}
		}
	}
	if got := asked(t, f, "baseline"); !slices.Equal(got, want) {
		t.Errorf("asked %v", got)
	}
	lines, first := rows(t, f, "exchanges.csv.gz"), map[string]string{}
	for _, line := range lines[1:] {
		column := strings.Split(line, ",")
		if key := column[0] + column[1]; first[key] == "" {
			first[key] = column[3]
		}
	}
	if len(lines) != 73 || first["u0"] != "10" || first["u1"] != "01" || first["t0"] != "01" || first["t3"] != "10" ||
		!strings.HasPrefix(lines[72], "t,3,39,") {
		t.Errorf("%d lines, asked first: %v, %q", len(lines), first, lines[72])
	}
	var started []string
	for _, c := range b.Checks {
		if c.Check == "listens_on_loopback" {
			started = append(started, c.Variant[:1])
		}
	}
	if got := strings.Join(started, ""); got != "cbbc"+"cbbcbccb" { // two loads, then four sittings
		t.Error(got)
	}
	if n := b.Duel.Counters["candidate"]["rows_read"]; n < 72 {
		t.Errorf("%v rows", n)
	}
	if solo := b.Solo["candidate"]; solo.Sizes["disk_bytes"] == 0 || solo.CPUNS != nil {
		t.Errorf("%+v", b.Solo)
	}
	for _, v := range f.variants { // the queries were asked of what the last load has left
		if _, err := os.Stat(filepath.Join(v.data, "server")); err != nil {
			t.Error(err)
		}
	}
}

func TestIngestionEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	f := toys(t, "", "")
	batches(t, f)
	f.Plan.Duel.LoadS, f.Plan.Duel.Least = 1e-6, 1
	b := fight(t, f)
	if b.Status != record.OK || len(b.Duel.Load) != 1 || b.Duel.Load[0].Exchanges != 1 || b.Duel.Load[0].Lines != 100 {
		t.Fatalf("%+v %+v", b.Failures, b.Duel)
	}
	exchanged := slices.DeleteFunc(slices.Clone(b.Checks),
		func(c record.Check) bool { return c.Check != "lines_exchanged" })
	if len(exchanged) != 2 || exchanged[0].Expected != 100 || exchanged[0].Actual != 100 || !exchanged[0].OK {
		t.Errorf("%+v", exchanged)
	}
}

func TestTypicalIsATrimmedMeanOfLogRatios(t *testing.T) {
	var all []exchange.Exchange
	for i := range 10 {
		all = append(all, exchange.Exchange{NS: []int64{1000, int64(1010 + i)}})
	}
	all[3].NS[1], all[7].NS[1] = 10, 99_000 // the tenth that is lowest, and the one that is highest
	all = append(all, exchange.Exchange{NS: []int64{1000, 0}})
	want := 0.0
	for _, i := range []int{0, 1, 2, 4, 5, 6, 8, 9} {
		want += math.Log(float64(1010+i)/1000) / 8
	}
	if got, ok := typical(all, 1); !ok || math.Abs(got-want) > 1e-12 {
		t.Errorf("%v and not %v", got, want)
	}
	if _, ok := typical(all[10:], 1); ok {
		t.Error("there is no pair")
	}
	b := record.NewBlock(record.BlockRow{})
	b.Ratio("candidate", "duel_cpu_us", math.Log(0))
	if b.Ratio("candidate", "duel_typical_ms", 0.5); len(b.Ratios["candidate"]) != 1 {
		t.Error("a ratio that nobody could make is none", b.Ratios)
	}
}

// A database ignores a request to merge while it merges: all are asked again before the block is void.
func TestSidesMergeUntilTheirDataLieAlike(t *testing.T) {
	t.Parallel()
	for wrong, void := range map[string]string{"deaf": "",
		"deaf  deaf  deaf  deaf": "unequal starts: the data lie in 1 parts on one side and in 2 on another, by chance, " +
			"though they were merged"} {
		f := toys(t, "", wrong)
		f.Plan.Settle, f.Plan.Duel.Enabled = record.Settle{Mode: "merged", TimeoutS: 20}, true
		f.variants["baseline"].target.Counters["parts"] = record.Counter{Name: "vm_parts"}
		for _, v := range f.variants {
			v.target.BeforeMerge = v.target.Quiet
		}
		if b := fight(t, f); b.Status != record.OK || b.Void != void || (void == "") != (len(b.Duel.Types) == 1) {
			t.Errorf("%s: void %q, %+v", wrong, b.Void, b.Failures)
		}
	}
}

// Merging fills the page cache, so where that is to be cold the load's own process merges.
func TestWhoMerges(t *testing.T) {
	for _, c := range []struct {
		mode, cache string
		drain, want bool
	}{{"merged", "as-loaded", false, true}, {"merged", "cold", false, false}, {"merged", "warm", true, false},
		{"natural", "as-loaded", false, false}} {
		plan := &record.Plan{Settle: record.Settle{Mode: c.mode, Drain: c.drain}, Queries: record.Queries{Cache: c.cache},
			Duel: record.Duel{Enabled: true}}
		v := &variant{frame: &frame{Spec: record.Spec{Plan: plan}},
			target: record.Target{BeforeMerge: []string{"active_merges"}}}
		if got := v.mergesLater(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
		if v.target.BeforeMerge = nil; v.mergesLater() {
			t.Errorf("%+v: a database that cannot be asked to merge", c)
		}
	}
}
