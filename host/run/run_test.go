package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsduel/host/noise"
	"tsduel/host/record"

	"golang.org/x/sys/unix"
)

func TestBlocksRunInTheirOrderOnceAndCalibrateAfterTheWarmUp(t *testing.T) {
	f := newFixture(t, 2, 1)
	reading := map[string]map[string]float64{"baseline": {"objects": 12}}
	f.block = func(_ context.Context, spec record.Spec) (*record.Block, error) {
		b := done(spec)
		if spec.Row.Kind == "warmup" {
			b.Duel.Reading = reading
		}
		return b, nil
	}
	f.run(t.Context(), 0)
	f.wantRan(0, 1, 2)
	f.wantThere(0, 1, 2)
	failIf(t, !reflect.DeepEqual(f.specs[2].Calibration.Reading, reading), "what reading costs: %v",
		f.specs[2].Calibration.Reading)
	failIf(t, f.specs[0].Calibration != nil, "the warm-up block was given counts")
	// 200 exchanges a second, two seconds, and 1,000 queries for the blocks 0 to 3.
	got := f.specs[2].Calibration.Counts["cpu-max-all-1"]
	failIf(t, got != 248, "%d exchanges and not 248", got)
	ends := f.events("block-end")
	failIf(t, len(ends) != 3 || ends[1]["block"] != 1.0 || ends[1]["seconds"] != 1.0 || ends[1]["status"] != "ok",
		"block-end: %v", ends)
	wantIn(t, f.read("run.log"), " INFO    tsduel-host: r: 0 of 3 blocks are finished\n", ": all blocks are run\n")
	wantIn(t, f.read("raw/host1.json"), `"mode": "off"`)

	f.run(t.Context(), 0)
	f.wantRan()
	start := f.events("run-start")[1]
	failIf(t, start["finished"] != 3.0 || start["planned"] != 3.0, "run-start: %v", start)
}

// Without a warm-up block nothing is counted. A finished run leaves no data of databases and nothing unpacked.
func TestARunWithoutAWarmUpBlockAndWhatItLeaves(t *testing.T) {
	f := newFixture(t, 2, 0)
	f.rows = f.rows[1:]
	leftovers := []string{"data/loaded/part", "feed.victoriametrics"}
	for _, name := range append([]string{"data.tsduel-data"}, leftovers...) {
		path := filepath.Join(f.cache, "scratch", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	}
	f.run(t.Context(), 0)
	f.wantRan(1, 2)
	failIf(t, f.specs[2].Calibration != nil || f.exists("raw/host1/calibration.json")(), "there are counts")
	for _, name := range leftovers {
		failIf(t, exists(filepath.Join(f.cache, "scratch", name)), "%s is left", name)
	}
}

func TestCounts(t *testing.T) {
	for _, c := range []struct {
		rate                      float64
		sides, inFlight, sittings int
		want                      int
	}{{1000, 2, 1, 1, 2000}, {999, 2, 1, 1, 2000}, {10, 2, 1, 1, 64}, {5, 2, 1, 1, 52}, {0.1, 2, 1, 1, 16},
		{1000, 3, 1, 1, 2004}, {0.1, 3, 1, 1, 24}, {1000, 2, 3, 1, 2016}, {0.1, 2, 8, 1, 128}, {1001, 2, 1, 4, 2016},
		{0.1, 2, 1, 4, 16}, {0.1, 3, 1, 4, 16}, {0.1, 2, 8, 2, 64}, {0.1, 2, 8, 3, 384}} {
		duel := record.Duel{Seconds: 2, MinExchanges: 64, MaxSeconds: 10, FloorExchanges: 16, InFlight: c.inFlight,
			Sittings: c.sittings}
		got := exchanges(duel, c.sides, c.rate)
		failIf(t, got != c.want, "%+v: %d", c, got)
	}
}

func TestAFailedBlockIsKeptAndTooManyEndTheRun(t *testing.T) {
	f := newFixture(t, 3, 1)
	fails := map[int]bool{1: true}
	f.block = func(_ context.Context, spec record.Spec) (*record.Block, error) {
		b := done(spec)
		if fails[spec.Row.Block] {
			b.Fail(record.Failure{Variant: "candidate", Part: record.Solo, Phase: "load", Message: "the server died"})
		}
		return b, nil
	}
	said := f.run(t.Context(), 0)
	wantIn(t, said, "block 1 FAILED in candidate load after 1 s: the server died",
		"tsduel: 1 of the blocks failed; the report says which and why")
	f.wantRan(0, 1, 2, 3) // and no spare block: the variant is to blame
	f.run(t.Context(), 0)
	f.wantRan()

	must(t, os.RemoveAll(f.path("raw/host1/002")))
	fails[2] = true
	said = f.run(t.Context(), 3)
	wantIn(t, said, "2 of the blocks failed (design.max_failed_blocks is 1): the run stops here")
	f.wantRan(2)
	end := f.events("run-end")[2]
	failIf(t, end["status"] != "failed" || end["code"] != 3.0 ||
		!strings.HasPrefix(end["message"].(string), "2 of the blocks failed"), "run-end: %v", end)
	f.run(t.Context(), 3)
	f.wantRan()
}

func TestSpoiltBlocksAreReplacedOnceAndInOrder(t *testing.T) {
	f := newFixture(t, 3, 2)
	slow, void := map[int]bool{2: true}, map[int]string{1: "the caches of candidate were not deleted"}
	f.block = func(_ context.Context, spec record.Spec) (*record.Block, error) {
		b := done(spec)
		if slow[spec.Row.Block] {
			b.Solo["baseline"].Canary.CPUS = 2
		}
		b.Void = void[spec.Row.Block]
		return b, nil
	}
	said := f.run(t.Context(), 0)
	f.wantRan(0, 1, 2, 3, 4, 5)
	wantIn(t, said, "block 1 does not count, spare block 4 is run instead: the caches of candidate were not deleted",
		"block 2 does not count, spare block 5 is run instead: ")
	for spare, replaced := range map[int]int{4: 1, 5: 2} {
		row := f.specs[spare].Row
		if row.Replaces != replaced || !reflect.DeepEqual(row.Coins, f.specs[replaced].Row.Coins) || len(row.Ask) != 2 {
			t.Errorf("spare block %d in place of %d has the coins %v", spare, row.Replaces, row.Coins)
		}
	}
	f.run(t.Context(), 0)
	f.wantRan()

	// An interrupted spare block is run again. If it is spoilt, too, no other one is left.
	must(t, os.RemoveAll(f.path("raw/host1/005")))
	slow[5] = true
	said = f.run(t.Context(), 0)
	f.wantRan(5)
	wantIn(t, said, "block 5: it does not count, and no spare block is left: ")
	replaced := f.events("block-replaced")
	failIf(t, len(replaced) != 3 || replaced[2]["block"] != 2.0 || replaced[2]["spare"] != 5.0,
		"block-replaced: %v", replaced)
}

func TestEachHostOfAFleetRunsItsOwnBlocksAndASpareOneThoseOfOneThatIsLost(t *testing.T) {
	f := newFixture(t, 0, 0)
	f.plan["hosts"], f.plan["spare_hosts"] = []string{"host1", "host2"}, []string{"host3"}
	f.rows = nil
	for block, row := range strings.Fields("host1:warmup host2:warmup host2:measured host1:measured host2:measured " +
		"host2:spare host3:warmup host3:spare host3:spare") {
		host, kind, _ := strings.Cut(row, ":")
		f.rows = append(f.rows, fmt.Sprintf("%d\t%s\t%s\tcandidate,baseline\t\t\t\tcpu-max-all-1", block, host, kind))
	}
	profiled := 0
	f.profile = func(_ context.Context, spec record.Spec) error {
		profiled++
		return os.Mkdir(filepath.Join(spec.Raw, "profiles"), 0o755)
	}
	f.share = Share{Host: "host2"}
	f.calibrate = func(_ *record.Plan, warmup string) (*record.Calibration, error) {
		failIf(t, filepath.Base(warmup) != "001", "calibrated by %s and not by its own warm-up", warmup)
		return &record.Calibration{}, nil
	}
	f.run(t.Context(), 0)
	f.calibrate = nil
	f.wantRan(1, 2, 4)
	failIf(t, profiled != 1,
		"profiles were read %d times and not once, behind the blocks of a host that is not the first", profiled)
	turn := f.specs[4].Row.Turn
	failIf(t, turn != 2 || !f.exists("raw/host2.json")(), "block 4 has turn %d of its host", turn)
	start := f.events("run-start")[0]
	failIf(t, start["planned"] != 3.0 || start["blocks"] != 2.0, "run-start: %v", start)
	f.share = Share{Host: "host3", Lost: []int{3}}
	said := f.run(t.Context(), 0)
	f.wantRan(6, 7)
	wantIn(t, said, "block 3 does not count, spare block 7 is run instead: the host that was to run it was lost")
	f.run(t.Context(), 0)
	f.wantRan()
	f.share = Share{Host: "host9"}
	wantIn(t, f.run(t.Context(), 2), "plan/blocks.tsv has no block for host9")
}

func TestWhatAPowerCutLeavesIsPutInOrder(t *testing.T) {
	f := newFixture(t, 2, 0)
	f.run(t.Context(), 0)
	counts, events := f.read("raw/host1/calibration.json"), f.read("raw/host1/events.jsonl")
	f.put("raw/host1/events.jsonl", events+`{"t": 1, "event": "block-sta`)
	for _, name := range []string{"calibration.json", "noise.json", "host1.json"} {
		f.put("raw/host1/"+name, "")
	}
	f.put("raw/host1/002/block.json", `{"status": "o`)
	f.put("raw/host1/000.partial/block.json", "{")
	f.ran = nil
	said := f.run(t.Context(), 0)
	f.wantRan(2)
	wantIn(t, said, "events.jsonl was cut off in the middle of a line: 28 bytes of it are dropped",
		"calibration.json was cut short (a power cut?): it is made again",
		"the record of block 002 was cut short (a power cut?): it is run again, and what is left of it is in ")
	aside := f.read("raw/host1/002.1.damaged/block.json")
	failIf(t, aside != `{"status": "o`, "what was left of block 002 is %q", aside)
	if !strings.HasPrefix(f.read("raw/host1/events.jsonl"), events) || f.read("raw/host1/calibration.json") != counts {
		t.Error("what was whole is not as it was")
	}
	wantIn(t, f.read("raw/host1/noise.json"), `"valid"`)
	left := matching(f.path("raw/host1"), "*.partial")
	failIf(t, len(left) > 0, "left: %v", left)
}

// The mark has the run's name, and a run of this name may have been killed and removed, with another plan.
func TestARunWithoutABlockAsksNoDataOfAnEarlierOneOfItsName(t *testing.T) {
	f := newFixture(t, 1, 0)
	mark := filepath.Join(f.cache, "scratch", "data", "whole", "r")
	for _, want := range []bool{false, true} { // the second time it has a block, and its data
		data := filepath.Join(f.cache, "scratch", "data")
		must(t, errors.Join(os.MkdirAll(filepath.Dir(data), 0o755), os.WriteFile(data+".tsduel-data", nil, 0o600)))
		must(t, os.MkdirAll(mark, 0o755))
		there := false
		f.block = func(_ context.Context, spec record.Spec) (*record.Block, error) {
			_, err := os.Stat(mark)
			there = err == nil
			if spec.Row.Block == 1 && !want {
				return nil, errors.New("it ends here")
			}
			return done(spec), nil
		}
		f.run(t.Context(), map[bool]int{false: 3, true: 0}[want])
		failIf(t, there != want, "the mark is there: %t, and not %t", there, want)
	}
}

// What is finished is never removed because it cannot be read now, or because another tsduel wrote it.
func TestAFinishedBlockThatCannotBeReadStopsTheRun(t *testing.T) {
	f := newFixture(t, 2, 0)
	f.run(t.Context(), 0)
	f.wantRan(0, 1, 2)
	whole := map[string]string{}
	for _, name := range []string{"002/block.json", "calibration.json"} {
		whole[name] = f.read("raw/host1/" + name)
	}
	const again = ": nothing was removed; see dmesg for the disk"
	for _, c := range []struct {
		name, said string
		spoil      func(path string)
	}{
		{"002/block.json", "002/block.json cannot be read (input/output error)" + again, func(path string) {
			// A read of this file at offset 0 is EIO for everybody.
			must(t, os.Remove(path))
			must(t, os.Symlink("/proc/self/mem", path))
		}},
		{"002/block.json", "002/block.json has schema 7 of a block's record, and this tsduel reads schema 1: ",
			func(path string) { must(t, os.WriteFile(path, []byte(`{"schema": 7, "block": 2}`), 0o644)) }},
		{"002/block.json", "002/block.json has schema 0 of a block's record, and this tsduel reads schema 1: ",
			func(path string) { must(t, os.WriteFile(path, []byte(`{}`), 0o644)) }},
		{"002/block.json", "002/block.json is not as this tsduel writes it (", func(path string) {
			text := strings.Replace(whole["002/block.json"], `"void": ""`, `"void": ["a", "b"]`, 1)
			must(t, os.WriteFile(path, []byte(text), 0o644))
		}},
		{"calibration.json", "calibration.json cannot be read (input/output error)" + again, func(path string) {
			must(t, os.Remove(path))
			must(t, os.Symlink("/proc/self/mem", path))
		}},
	} {
		c.spoil(f.path("raw/host1/" + c.name))
		must(t, os.WriteFile(f.path("raw/host1/002/values"), []byte("kept"), 0o644))
		wantIn(t, f.run(t.Context(), 2), c.said)
		f.wantRan()
		f.wantThere(0, 1, 2)
		failIf(t, f.read("raw/host1/002/values") != "kept", "%s: something was removed", c.said)
		must(t, os.Remove(f.path("raw/host1/"+c.name)))
		f.put("raw/host1/"+c.name, whole[c.name])
	}
	f.run(t.Context(), 0)
	f.wantRan()
}

func TestARunThatIsToldToEndDoesSoAtOnceAndGoesOnLater(t *testing.T) {
	for name, tell := range map[string]func(pid int) error{
		"Ctrl-C": func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) },
		"killed": func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 3, 0)
			kept := map[string]string{}
			for told, seconds := range []float64{0.1, 0.1, 0} {
				c := f.start(seconds)
				if told < 2 {
					time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
					_ = tell(c.Process.Pid) // or it has ended by then
				}
				_ = c.Wait()
				code := c.ProcessState.ExitCode()
				failIf(t, code != 0 && code != 130 && code != -1, "exit code %d: %s", code, c.Stderr)
				failIf(t, (name != "killed" || told == 2) && f.left() > 0, "processes are left")
				for _, dir := range blockDirs(f.path("raw/host1")) {
					text := f.read(filepath.Join("raw", "host1", filepath.Base(dir), "block.json"))
					before, ok := kept[dir]
					failIf(t, ok && before != text, "%s was run again", dir)
					kept[dir] = text
				}
			}
			f.wantThere(0, 1, 2, 3)
		})
	}
}

func TestWhatAKilledRunLeftIsEndedByTheNextOne(t *testing.T) {
	f := newFixture(t, 1, 0)
	stray := exec.Command("sleep", "600")
	stray.Env = append(os.Environ(), "TSDUEL_SCRATCH="+filepath.Join(f.cache, "scratch"))
	must(t, stray.Start())
	go func() { _ = stray.Wait() }()
	wantIn(t, f.run(t.Context(), 0), "ended what an interrupted block left behind: 1 processes")
	err := syscall.Kill(stray.Process.Pid, 0)
	failIf(t, err == nil, "it is still there")
}

func TestStopIsAfterTheBlock(t *testing.T) {
	f := newFixture(t, 3, 0)
	c := f.start(600)
	f.waitFor("a block", f.exists("raw/host1/000.partial"))
	said, err := Stop(f.dir, "host1", c.Process.Pid)
	failIf(t, err != nil || said != "after block 0", "%s %v", said, err)
	f.put("finish", "")
	_ = c.Wait()
	failIf(t, c.ProcessState.ExitCode() != 130, "exit code %d", c.ProcessState.ExitCode())
	f.wantThere(0)
	request, end := f.events("stop-requested")[0], f.events("run-end")[0]
	failIf(t, request["block"] != 0.0 || end["message"] != "stopped as asked" || end["status"] != "interrupted",
		"%v %v", request, end)
	failIf(t, f.exists("stop-requested")(), "the request is still there")

	f.put("stop-requested", "") // as a power cut leaves it
	f.run(t.Context(), 0)
	f.wantRan(1, 2, 3)
}

func TestOneRunAtATime(t *testing.T) {
	f := newFixture(t, 1, 0)
	c := f.start(600)
	f.waitFor("a process of a block", f.exists("raw/host1/000.partial/begun"))
	text, err := os.ReadFile(os.Getenv("TSDUEL_LOCK"))
	must(t, err)
	wantIn(t, string(text), ", began ", ", boot "+noise.BootID()+", user ", ", since ", ", "+f.dir+"\n")
	wantIn(t, f.run(t.Context(), 2), "this run is going on already: pid ", "end it with 'make stop RUN=a [run] 'x''")

	lock := os.Getenv("TSDUEL_LOCK")
	other := newFixture(t, 1, 0) // with another cache
	t.Setenv("TSDUEL_LOCK", lock)
	wantIn(t, other.run(t.Context(), 2), "another run is going on on this machine: pid ", f.dir+"; wait for it",
		", then: make tsbs RUN=")
	failIf(t, other.exists("raw/host1/events.jsonl")(), "a run that may not begin has told of itself")
	failIf(t, f.left() == 0, "the other run's processes were ended")
	_ = syscall.Kill(c.Process.Pid, syscall.SIGKILL)
	_ = c.Wait()
	// The text names a process that has ended; its pid may be another process's now.
	f.run(t.Context(), 0)

	t.Setenv("TSDUEL_LOCK", filepath.Join(t.TempDir(), "elsewhere"))
	private, err := lockCache(t.Context(), f.cache, "/a/run", 0)
	must(t, err)
	defer private.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	f.run(ctx, 130)

	t.Setenv("TSDUEL_LOCK", t.TempDir())
	wantIn(t, f.run(t.Context(), 2), ", cannot be opened: see who made it")
}

func TestWhatIsRefusedBeforeTheFirstBlock(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fixture)
		want   string
	}{
		"too little disk": {func(f *fixture) { f.plan["estimate"] = map[string]any{"database_bytes": int64(1) << 60} },
			"point TSDUEL_CACHE to a larger disk"},
		"not built": {func(f *fixture) { os.Remove(f.path("build/candidate.json")) },
			"candidate is not built: run 'make build RUN="},
		"another kind": {func(f *fixture) { f.plan["kind"] = "logs" },
			"of the kind \"logs\", which this tsduel does not know"},
		"a later version": {func(f *fixture) { f.plan["plan_version"] = record.PlanVersion + 1 },
			fmt.Sprintf("has version %d of a plan, and this tsduel runs version %d: plan a new run", record.PlanVersion+1,
				record.PlanVersion)},
		"data of the user": {func(f *fixture) {
			must(t, os.MkdirAll(filepath.Join(f.cache, "scratch/data/precious"), 0o755))
		}, "is not marked as ours"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1, 0)
			c.change(f)
			wantIn(t, f.run(t.Context(), 2), c.want)
			f.wantRan()
			f.wantThere()
		})
	}
	code := Run(t.Context(), t.TempDir(), t.TempDir(), Share{Host: "host1"}, nil)
	failIf(t, code != 2, "exit code %d for what is no run", code)
}

func TestAnErrorOfOursIsASentence(t *testing.T) {
	f := newFixture(t, 1, 0)
	f.block = func(context.Context, record.Spec) (*record.Block, error) {
		return nil, errors.New("a step of ours broke")
	}
	wantIn(t, f.run(t.Context(), 3), "the run has stopped: a step of ours broke")
	f.wantThere()
	end := f.events("run-end")
	failIf(t, end[0]["message"] != "a step of ours broke", "%v", end)
	f.block = func(context.Context, record.Spec) (*record.Block, error) { panic("nobody thought of it") }
	const sentence = "a defect of tsduel in block 0, whose details are in run.log: nobody thought of it"
	wantIn(t, f.run(t.Context(), record.ExitDefect), "the run has stopped: "+sentence)
	wantIn(t, f.read("run.log"), "run_test.go")
	// Of any goroutine, too.
	f.block = func(ctx context.Context, _ record.Spec) (*record.Block, error) {
		go record.Caught(func() { panic("nobody thought of it") })()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	wantIn(t, f.run(t.Context(), record.ExitDefect), "the run has stopped: "+sentence)
	ends := f.events("run-end")
	if end := ends[len(ends)-1]; end["message"] != sentence || end["code"] != float64(record.ExitDefect) {
		t.Error(end)
	}
}

// What Go cannot catch ends the driver. Its parent tells that, with another exit code than that of a user's mistake.
func TestADriverThatCrashesIsADefectOfOurs(t *testing.T) {
	f := newFixture(t, 1, 0)
	t.Setenv("FAKE_CRASH", "1")
	rounds := f.start(60, "detached", "rounds", f.dir, f.cache, "host1")
	f.waitFor("the end", f.exists("control/exit"))
	_ = rounds.Wait()
	sentence := "a defect of tsduel in block 0: the driver has crashed; its stack is in " + f.path("control/log")
	if end := f.events("run-end"); len(end) != 1 || end[0]["message"] != sentence || end[0]["block"] != 0.0 {
		t.Error(end)
	}
	if code := strings.TrimSpace(f.read("control/exit")); code != "1" {
		t.Errorf("exit code %s", code)
	}
	wantIn(t, f.read("control/log"), "panic: nobody caught it")
}

func TestFullDisks(t *testing.T) {
	small := func(t *testing.T, dir string) {
		must(t, os.MkdirAll(dir, 0o755))
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=40m"); err != nil {
			t.Skip("no disk can be mounted here: ", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	fill := func(path string, mib int) {
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		_ = os.WriteFile(path, make([]byte, mib<<20), 0o644) // as far as it goes
	}
	for _, place := range []string{"the results'", "the cache's"} {
		t.Run(place, func(t *testing.T) {
			f := newFixture(t, 1, 0)
			dir := f.path("raw/host1")
			if place != "the results'" {
				dir = filepath.Join(f.cache, "scratch")
			}
			small(t, dir)
			ballast := filepath.Join(dir, "ballast")
			f.block = func(_ context.Context, spec record.Spec) (*record.Block, error) {
				b := done(spec)
				if spec.Row.Block == 1 { // the database complains and ends
					fill(ballast, 50)
					b.Fail(record.Failure{Message: "the server died"})
				}
				return b, nil
			}
			said := f.run(t.Context(), 2)
			wantIn(t, said, "is full (0 MiB are free): free some there",
				"no finished block is lost. To go on: make tsbs RUN=a [run] 'x'")
			f.wantThere(0)
			failIf(t, place == "the results'" && f.exists("raw/host1/001.partial")(), "the unfinished block takes room")
			os.Remove(ballast)
			f.block = func(_ context.Context, spec record.Spec) (*record.Block, error) { return done(spec), nil }
			f.run(t.Context(), 0)
			f.wantThere(0, 1)
		})
	}
	t.Run("while data are made, which frees what it took", func(t *testing.T) {
		f := newFixture(t, 1, 0)
		f.block = func(context.Context, record.Spec) (*record.Block, error) {
			return nil, fmt.Errorf("writing data.zst: %w", unix.ENOSPC)
		}
		wantIn(t, f.run(t.Context(), 2), "writing data.zst: no space left on device: free some space; no finished block is "+
			"lost. To go on: make tsbs RUN=a [run] 'x'")
	})
	t.Run("a version that fills it has failed", func(t *testing.T) {
		f := newFixture(t, 1, 0)
		small(t, filepath.Join(f.cache, "scratch"))
		f.block = func(_ context.Context, spec record.Spec) (*record.Block, error) {
			b := done(spec)
			if spec.Row.Block == 1 {
				must(t, record.Wipe(filepath.Join(spec.Scratch, "data")))
				fill(filepath.Join(spec.Scratch, "data/baseline/x"), 50)
				b.Fail(record.Failure{Message: "the server died"})
			}
			return b, nil
		}
		wantIn(t, f.run(t.Context(), 0), "the server died; the disk of ", " is full: its files take ",
			" MiB, and 1 were expected")
		f.wantThere(0, 1)
	})
}

func TestDetached(t *testing.T) {
	t.Setenv("FAKE_DRIVER", "1")
	f := newFixture(t, 1, 0)
	d := f.detached("host1")
	// As launch does, without a unit of systemd.
	begin := func() *exec.Cmd { return f.start(600, "detached", "rounds", f.dir, f.cache, "host1") }
	wantState := func(want string) {
		t.Helper()
		got := d.State()
		failIf(t, !strings.HasPrefix(got, want), "%q and not %q", got, want)
	}
	wantState("none")
	login, password := filepath.Join(f.cache, "secrets/git-login"), filepath.Join(f.cache, "secrets/hidden-00000000")
	for _, path := range []string{login, password} {
		failIf(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)) != nil, "%s", path)
	}
	c := begin()
	f.waitFor("a driver", func() bool { return d.pid() != 0 })
	wantState("running ")
	failIf(t, exists(login), "versions can read the login of a repository")
	failIf(t, !exists(password), "a server has no password")
	must(t, d.Start()) // it runs
	f.put("finish", "")
	must(t, c.Wait())
	wantState("ended 0\nblock 000\nblock 001")
	var sums strings.Builder
	must(t, d.Sums(&sums))
	check := exec.Command("sha256sum", "--check", "--quiet")
	check.Dir, check.Stdin = f.path("raw"), strings.NewReader(sums.String())
	if said, err := check.CombinedOutput(); err != nil || !strings.Contains(sums.String(), "  ./host1/001/block.json\n") {
		t.Errorf("%s: %v\n%s", said, err, sums.String())
	}
	must(t, d.Collected())
	wantState("none\nblock 000")

	must(t, os.RemoveAll(f.path("raw/host1/001")))
	must(t, os.Remove(f.path("finish")))
	c = begin()
	f.waitFor("a block", f.exists("raw/host1/001.partial"))
	go func() { _ = c.Wait() }()
	for _, want := range []string{"after block 1", "stopped"} {
		said, err := d.Stop(t.Context())
		failIf(t, err != nil || said != want, "%q and not %q (%v)", said, want, err)
	}
	wantState("ended 130")
	failIf(t, f.left() > 0, "processes are left")

	must(t, d.Collected())
	c = begin()
	f.waitFor("a block", f.exists("raw/host1/001.partial"))
	_ = c.Process.Kill()
	_ = c.Wait()
	f.waitFor("the driver's end", func() bool { _, err := lockCache(t.Context(), f.cache, "", 0); return err == nil })
	wantState("lost")
}

func TestStartingTouchesTheMachineOnlyWhereThatIsAskedFor(t *testing.T) {
	t.Setenv("FAKE_DRIVER", "1")
	t.Setenv("FAKE_S", "0")
	log := filepath.Join(t.TempDir(), "log")
	says := "echo ${0##*/} \"$@\" >>" + log + "\n"
	fakeTools(t, map[string]string{"sudo": "shift\nexec \"$@\"", "fstrim": says, "sysctl": says, // shift: -n
		"systemd-run": says + "while [ \"$1\" != -- ]; do shift; done\nshift\nsetsid \"$@\" &"})
	for name, c := range map[string]struct {
		plan    map[string]any
		touched bool
	}{
		"somebody's own": {map[string]any{"place": map[string]any{"kind": "ssh"}}, false},
		"as asked": {map[string]any{"place": map[string]any{"kind": "ssh"},
			"host": map[string]any{"pin": "off", "drop_caches": true}}, true},
		"a rented one": {map[string]any{"place": map[string]any{"kind": "gcp"}}, true},
	} {
		f := newFixture(t, 1, 0)
		maps.Copy(f.plan, c.plan)
		os.Remove(log)
		d := f.detached("host1")
		must(t, d.Start())
		f.waitFor("the end", func() bool { return strings.HasPrefix(d.State(), "ended 0") })
		text, err := os.ReadFile(log)
		must(t, err)
		// Else systemd ends the whole run when the kernel kills a server for its memory.
		wantIn(t, string(text), "--property=OOMPolicy=continue", "--property=Delegate=yes", " -- /bin/sh -c ")
		touched := strings.Contains(string(text), "drop_caches") || strings.Contains(string(text), "fstrim")
		failIf(t, touched != c.touched, "%s: %s", name, text)
	}
}

// All data of a run stay in the cache.
func TestWhatARunNeedsOfTheCache(t *testing.T) {
	keys := func(key string) []record.DataKey { return []record.DataKey{{Key: key}} }
	plan := &record.Plan{Mixed: &record.Mixed{Data: keys("mixed")}, Workload: &record.WorkloadPlan{Data: keys("loaded"),
		Continued: &record.Continued{Data: keys("continued")}, Alone: &record.Alone{Data: keys("alone")}}}
	needed, _ := needs(record.Spec{Plan: plan, Cache: t.TempDir(), Builds: &record.Builds{}})
	for _, key := range []string{"loaded", "mixed", "continued", "alone"} {
		failIf(t, !needed["workload/"+key], "the data %s may be removed", key)
	}
}

func TestTheCacheIsTrimmed(t *testing.T) {
	f := newFixture(t, 0, 0)
	f.write()
	plan, err := record.LoadPlan(f.dir)
	must(t, err)
	day := 24 * time.Hour
	put := func(name string, ago time.Duration) string {
		dir := filepath.Join(f.cache, name)
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "content"), make([]byte, 1_000_000), 0o644))
		must(t, os.WriteFile(filepath.Join(dir, usedMark), nil, 0o644))
		must(t, os.Chtimes(filepath.Join(dir, usedMark), time.Now().Add(-ago), time.Now().Add(-ago)))
		return dir
	}
	names := []string{"variants/00000000000000ba", "workload/0000000000000001", "src/0000000000000002.git",
		"variants/0000000000000003", "tsbs/0000000000000004", "agent/0000000000000005", "variants/0000000000000006",
		"variants/mine", "variants/0000000000000007.partial.abc", "workload/dump.1.new"}
	for i, name := range names {
		put(name, time.Duration(20-i)*day)
	}
	put("tsbs/0000000000000008", time.Hour/2)
	put("go/build", 0)
	must(t, os.Symlink("/tmp", filepath.Join(f.cache, "variants/0000000000000009")))
	var said []string
	trimTo := func(mb float64) []string {
		t.Helper()
		said = nil
		limit := mb / 1000
		plan.Host.CacheLimitGB = &limit
		spec := record.Spec{Plan: plan, Cache: f.cache, Builds: &record.Builds{}}
		must(t, trim(spec, func(line string) { said = append(said, line) }))
		var gone []string
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(f.cache, name)); err != nil {
				gone = append(gone, name)
			}
		}
		return gone
	}
	want := func(gone []string, numbers ...int) {
		t.Helper()
		var expected []string
		for _, number := range numbers {
			expected = append(expected, names[number])
		}
		failIf(t, !reflect.DeepEqual(gone, expected), "%v went and not %v", gone, expected)
	}
	want(trimTo(100))
	failIf(t, said != nil, "said %v", said)
	// Eleven entries of a megabyte: the oldest goes that this run does not use.
	want(trimTo(10.5), 1)
	wantIn(t, said[0], "and its limit is 10 MB (CACHE_LIMIT): removed what was not used for longest: "+
		"workload/0000000000000001 (1.0 MB, last used "+time.Now().Add(-19*day).UTC().Format(time.DateOnly)+")")
	// A clone stays while anything is being built, and a binary while it is being built.
	must(t, os.WriteFile(filepath.Join(f.cache, "variants/0000000000000003.lock"), nil, 0o644))
	building, err := os.Open(filepath.Join(f.cache, "variants/0000000000000003.lock"))
	must(t, err)
	must(t, unix.Flock(int(building.Fd()), unix.LOCK_EX))
	want(trimTo(8.5), 1, 4, 5)
	building.Close()
	// Entries of this run stay, those that were used within the hour, those that are not ours, and one that is
	// being built. What a killed build or reading has left goes.
	must(t, os.MkdirAll(filepath.Join(f.cache, "variants/.removed.0000000000000010/x"), 0o500))
	must(t, os.WriteFile(filepath.Join(f.cache, "variants/0000000000000007.lock"), nil, 0o644))
	building, err = os.Open(filepath.Join(f.cache, "variants/0000000000000007.lock"))
	must(t, err)
	must(t, unix.Flock(int(building.Fd()), unix.LOCK_EX))
	want(trimTo(0.001), 1, 3, 4, 5, 6, 9)
	building.Close()
	want(trimTo(0.001), 1, 2, 3, 4, 5, 6, 8, 9)
	wantIn(t, said[0], " stay: 1.0 MB are Go's own, the rest is this run's or was used within the hour; "+
		"give a larger CACHE_LIMIT")
	left := matching(filepath.Join(f.cache, "variants"), ".removed.*")
	failIf(t, left != nil, "left: %v", left)
	// What an interrupted run has left in scratch counts.
	must(t, os.MkdirAll(filepath.Join(f.cache, "scratch/data"), 0o700))
	must(t, os.WriteFile(filepath.Join(f.cache, "scratch/data/part"), make([]byte, 1_000_000), 0o600))
	want(trimTo(3.5), 1, 2, 3, 4, 5, 6, 8, 9)
	wantIn(t, strings.Join(said, ""), "the cache takes 4.0 MB with the data of this run")
	info, err := os.Stat(filepath.Join(f.cache, names[0], usedMark))
	failIf(t, err != nil || time.Since(info.ModTime()) > time.Minute, "what this run uses does not count as used now")
}
