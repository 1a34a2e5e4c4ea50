package block

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/servers"
)

func TestADuelAsksEverySideTheSameSliceAndKeepsAll(t *testing.T) {
	f := duels(t)
	f.Row.Order = []string{"candidate", "baseline"}
	f.Row.QueryTypes, f.Host.Pin = []string{types[1], types[0]},
		record.Pin{Mode: "fixed", Server: proc.Allowed()[:1], Client: proc.Allowed()[:1]}
	before := proc.Allowed()
	b := fight(t, f)
	succeeded(t, b)
	if !slices.Equal(before, proc.Allowed()) {
		t.Fatalf("on CPUs %v", proc.Allowed())
	}
	want := slices.Concat(numbers("u", 60, 30), numbers("t", 80, 40)) // block 2 of 40 and of 30
	for i, name := range []string{"baseline", "candidate"} {
		if got := asked(t, f, name); !slices.Equal(got, want) {
			t.Errorf("%s was asked %v", name, got)
		}
		if b.Duel.RSSBytes[name] == 0 || b.Duel.RSSPeakBytes[name] < b.Duel.RSSBytes[name] ||
			!b.Duel.Start[name].CachesDeleted {
			t.Errorf("%s: %+v", name, b.Duel)
		}
		// The record has how every server lies in memory.
		if p := b.Duel.Places[i]; p.Variant != name || p.Role != "server" || p.Sitting != 0 || p.Loading ||
			p.Frames > p.Pages {
			t.Errorf("%+v", p)
		}
	}
	lines := rows(t, f, "exchanges.csv.gz")
	if len(lines) != 71 || lines[0] != "query_type,sitting,k,order,bytes,baseline_ns,candidate_ns" ||
		!strings.HasPrefix(lines[2], types[1]+",0,1,01,") || len(strings.Split(lines[70], ",")) != 7 {
		t.Errorf("%d lines: %q", len(lines), lines[:3])
	}
	if b.Duel.HeldBy == "" || b.Duel.Unheld != "" || b.Duel.Types[1].Turns < 40 || b.Duel.Types[1].TurnS <= 0 {
		t.Errorf("held by %q, %q: %+v", b.Duel.HeldBy, b.Duel.Unheld, b.Duel.Types[1])
	}
	u := b.Duel.Types[0]
	if u.QueryType != types[1] || u.Exchanges != 30 || u.Compared != 30 || u.FirstQuery != 60 ||
		u.CPUNS["candidate"] <= 0 || u.ClientCPUNS <= 0 || u.Stopped != "" || u.Instructions != nil ||
		u.Counters["candidate"]["rows_read"] <= 0 {
		t.Errorf("%+v", u)
	}
	if len(b.Duel.Idle) != 2 || b.Duel.Idle[1].When != "after" || b.Duel.Idle[0].CPUNS["baseline"] < 0 {
		t.Errorf("%+v", b.Duel.Idle)
	}
	var phases, checks []string
	for _, p := range b.Phases {
		phases = append(phases, strings.TrimSpace(p.Phase+" "+p.QueryType))
	}
	for _, c := range b.Checks {
		checks = append(checks, c.Check)
	}
	if b.Checks[0].Variant != "candidate" {
		t.Error("the candidate was not started first, as the block's order says")
	}
	if got := strings.Join(phases, ", "); got !=
		"start, idle before, exchange "+types[1]+", exchange "+types[0]+", idle after, stop" {
		t.Error(got)
	}
	for check, count := range map[string]int{"equal_start": 4, "exchanges_same": 2, "exchanges_answered": 2,
		"exchanges_empty": 4, "rows_read": 4, "same_process": 2, "listens_on_loopback": 2} {
		if got := strings.Count(strings.Join(checks, " "), check); got != count {
			t.Errorf("%d checks %s", got, check)
		}
	}
}

func TestASideThatKeptItsAnswersVoidsTheBlock(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		change func(*testing.T, *frame)
		void   string
	}{
		"kept where the server finds it, by an adapter that forgets nothing": {"", func(t *testing.T, f *frame) {
			script(t, filepath.Join(f.given.Adapters, "fake", "forget"), "")
			cache := filepath.Join(f.variants["candidate"].Data, "server", "cache")
			check(t, os.MkdirAll(cache, 0o755), os.WriteFile(filepath.Join(cache, "rollup"), make([]byte, 5000), 0o644))
		}, " bytes of answers on disk, which an earlier process left"},
		"kept where nobody sees it: the server says it": {"warm", func(*testing.T, *frame) {},
			"candidate began with 7 cached answers in its memory, which an earlier process left"},
		"equal starts are not taken for granted": {"", func(_ *testing.T, f *frame) {
			target := &f.variants["candidate"].Module
			target.Counters = maps.Clone(target.Counters)
			target.Counters["answers_kept"] = record.Counter{Name: "vm_renamed"}
		}, "with how many cached answers in its memory candidate began is not known: vm_renamed is not in its /metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := duels(t, "", c.mode)
			c.change(t, f)
			b := fight(t, f)
			if !strings.HasPrefix(b.Void, "unequal starts: ") || !strings.HasSuffix(b.Void, c.void) ||
				len(b.Duel.Types) != 0 || b.Duel.Start["candidate"].CachesDeleted == strings.Contains(c.void, "disk") {
				t.Errorf("void: %q, %+v", b.Void, b.Duel)
			}
			failed := slices.DeleteFunc(slices.Clone(b.Checks), func(c record.Check) bool { return c.OK })
			if len(failed) != 1 || failed[0].Check != "equal_start" || failed[0].Variant != "candidate" ||
				(failed[0].Actual == -1) != strings.Contains(c.void, "not known") {
				t.Errorf("%+v", failed)
			}
		})
	}
}

// A side that is out ends the phase for two; the other one has done nothing wrong, whichever it is.
func TestASideThatIsOutIsBlamedAlone(t *testing.T) {
	for name, of := range map[string]struct {
		frame func(*testing.T, ...string) *frame
		mode  string
	}{"queries": {duels, "die=20"}, "ingestion": {loads, "503"}} {
		for at, bad := range []string{"baseline", "candidate"} {
			t.Run(name+" "+bad, func(t *testing.T) {
				t.Parallel()
				modes := []string{"", ""}
				modes[at] = of.mode
				b := fight(t, of.frame(t, modes...))
				if len(b.Failures) != 1 || b.Failures[0].Variant != bad {
					t.Errorf("%+v", b.Failures)
				}
				for _, c := range b.Checks {
					if !c.OK && c.Variant != bad {
						t.Errorf("%+v", c)
					}
				}
			})
		}
	}
}

func TestWhatAVariantDoesWrongInADuelIsItsOwn(t *testing.T) {
	const differ = " answers to single-groupby-1-1-1 are not the same as baseline's, first in exchange %d: " +
		`series .*: at 1749513600 the values are \d+ and \d+ \(duel/differences.json has both\)$`
	for wrong, want := range map[string]string{
		"wrong=20": "^2 of 40" + fmt.Sprintf(differ, 19),
		"wrong=1":  "^10 of 10" + fmt.Sprintf(differ, 0),
		"error=20": `^operation 19 \(/api/v1/query_range\?query=.*&n=99\): HTTP 500: no more; `,
		"die=20":   `\) died: fatal error: out of toys`,
		"no-rows":  "^the queries of single-groupby-1-1-1 read no data: vm_rows_read_per_query_sum did not move",
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			f := duels(t, "", wrong)
			if failure := failed(t, fight(t, f), "duel", "exchange", want); failure.QueryType != types[0] {
				t.Errorf("%+v", failure)
			}
			var differences []record.Difference
			check(t, record.ReadJSON(filepath.Join(f.Dir, "duel", "differences.json"), &differences))
			if differs := strings.HasPrefix(wrong, "wrong"); differs != (len(differences) == 1) ||
				differs && (!strings.Contains(differences[0].Bodies[0], `"values": [[1749513600,`) ||
					!strings.Contains(differences[0].Bodies[1], `"values": [[1749513600,`)) {
				t.Errorf("%+v", differences)
			}
		})
	}
	t.Run("what is kept of an answer has no secret", func(t *testing.T) {
		t.Parallel()
		f, cache, secret := duels(t, "", "wrong=20"), t.TempDir(), "seed=1&n"
		check(t, os.Mkdir(filepath.Join(cache, "secrets"), 0o700))
		check(t, os.WriteFile(filepath.Join(cache, "secrets/hidden-0000000a"), []byte(secret), 0o600))
		f.Plan.Variants[1].Components[0].Env["KEY"] = "hidden-0000000a"
		var err error
		f.Hidden, err = f.Plan.Reveal(cache)
		check(t, err)
		failed(t, fight(t, f), "duel", "exchange", `&hidden-0=99"}: at 1749513600 the values are`)
		kept, err := os.ReadFile(filepath.Join(f.Dir, "duel", "differences.json"))
		check(t, err)
		if text := string(kept); strings.Count(text, `\u0026hidden-0=99\"}`) != 3 {
			t.Error(text)
		}
	})
	t.Run("both without data: each for itself", func(t *testing.T) {
		t.Parallel()
		if b := fight(t, duels(t, "empty=40", "empty=40")); len(b.Failures) != 2 ||
			b.Failures[0].Message != "1 of 40 answers to single-groupby-1-1-1 have no data" {
			t.Errorf("%+v", b.Failures)
		}
	})
	t.Run("some without data, as their type may be: that many are in the record", func(t *testing.T) {
		t.Parallel()
		f := duels(t, "empty=40", "empty=40")
		f.Plan.Queries.Types = append(f.Plan.Queries.Types, record.QueryType{Name: types[0], MayBeEmpty: true})
		b, found := fight(t, f), 0
		for _, c := range b.Checks {
			if c.Check == "exchanges_empty" && c.QueryType == types[0] && c.OK && c.Expected == 1 && c.Actual == 1 {
				found++
			}
		}
		if len(b.Failures) != 0 || found == 0 {
			t.Errorf("%+v %+v", b.Failures, b.Checks)
		}
	})
	t.Run("none has data for any query, in the first block: the plan's window is wrong", func(t *testing.T) {
		t.Parallel()
		f := duels(t, "empty=1", "empty=1")
		f.Row.Kind, f.Calibration = "warmup", nil
		f.Plan.Queries.Types = append(f.Plan.Queries.Types, record.QueryType{Name: types[0], Own: "q.yml:3"})
		*f.block = *record.NewBlock(f.Row)
		err := runDuel(t.Context(), f, "", f.Row.QueryTypes, &f.block.Duel)
		if stop, is := errors.AsType[*record.Stop](err); !is || !strings.HasSuffix(stop.Message, ": q.yml:3 "+types[0]) ||
			!strings.HasPrefix(stop.Message, "no variant has data for any query in the plan's window, ") {
			t.Errorf("%v", err)
		}
	})
	t.Run("queries of the user: all at once", func(t *testing.T) {
		t.Parallel()
		f := duels(t, "", "wrong=1")
		f.Row.QueryTypes = types
		for i, name := range types {
			f.Plan.Queries.Types = append(f.Plan.Queries.Types, record.QueryType{Name: name, Own: fmt.Sprintf("q.yml:%d", 3+i)})
		}
		const answers = `: \d+ of \d+ answers to `
		failed(t, fight(t, f), "duel", "exchange", `(?s)^q.yml:3`+answers+`.*\nq.yml:4`+answers)
	})
	t.Run("the others go on", func(t *testing.T) {
		t.Parallel()
		f := duels(t, "", "die=20", "")
		f.Row.QueryTypes = types
		b := fight(t, f)
		failed(t, b, "duel", "exchange", "out of toys")
		if len(b.Duel.Types) != 2 || b.Duel.Types[1].Compared != 30 {
			t.Errorf("%+v", b.Duel.Types)
		}
		if last := rows(t, f, "exchanges.csv.gz")[70]; !strings.Contains(last, ",,") || !strings.Contains(last, ",2") {
			t.Errorf("last exchange %q", last)
		}
	})
}

func TestAServerThatIsNeverIdleIsNamed(t *testing.T) {
	t.Run("merging", func(t *testing.T) {
		t.Parallel()
		f := duels(t, "", "merging")
		f.Plan.Watchdog.IdleTimeoutS = 1.5
		b := fight(t, f)
		succeeded(t, b)
		if !b.Duel.Start["candidate"].IdleTimeout || b.Duel.Start["baseline"].IdleTimeout ||
			!strings.Contains(events(f.Spec), "it was not idle within") {
			t.Errorf("%+v", b.Duel.Start)
		}
	})
	t.Run("busy", func(t *testing.T) {
		t.Parallel()
		f := duels(t, "", "busy")
		f.Plan.Watchdog.IdleTimeoutS = 60
		b := fight(t, f)
		succeeded(t, b)
		if s := b.Duel.Start["candidate"]; s.IdleTimeout || !strings.Contains(events(f.Spec), "of a CPU when nobody asks") {
			t.Errorf("%+v", s)
		}
		if idle := b.Duel.Idle[0]; idle.CPUNS["candidate"] < 3*idle.CPUNS["baseline"] {
			t.Errorf("%+v", idle)
		}
	})
}

// What is asked depends on the cache, on bursts, on the calibration and on where its counters are read.
func TestWaysOfADuel(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*frame)
		wrong  func(*record.Block, int) bool // of a block in which the candidate was asked so many queries
	}{
		"cold: started afresh for each type": {func(f *frame) {
			f.Plan.Queries.Cache, f.Row.QueryTypes = "cold", types
		}, func(b *record.Block, asked int) bool {
			return asked != 70 || b.Duel.Start["candidate"].Restarts != 1 || b.Duel.Start["baseline"].Restarts != 1 ||
				b.Duel.Start["baseline"].IdleS <= 0
		}},
		"warm: asked before it counts": {func(f *frame) { f.Plan.Queries.Cache = "warm" },
			func(b *record.Block, asked int) bool { return asked != 80 || b.Duel.Types[0].Exchanges != 40 }},
		"all run while one is asked": {func(f *frame) { f.Plan.Duel.Hold = false }, func(b *record.Block, asked int) bool {
			return asked != 40 || b.Duel.HeldBy != "" || b.Duel.Unheld != "duel.hold is false" || b.Duel.Types[0].Turns != 0
		}},
		"bursts": {func(f *frame) { f.Plan.Duel.InFlight, f.Calibration = 2, nil },
			func(b *record.Block, asked int) bool {
				return asked < 8 || asked%8 != 0 || b.Duel.Types[0].Exchanges != asked || b.Duel.Types[0].FirstQuery != 0
			}},
		"counters are read once for all types": {func(f *frame) {
			f.Plan.Duel.Counters, f.Row.QueryTypes = "duel", types
		}, func(b *record.Block, asked int) bool {
			var read []string
			for _, c := range b.Checks {
				if c.Check == "rows_read" {
					read = append(read, c.Variant+c.QueryType)
				}
			}
			slices.Sort(read)
			return b.Duel.Counters["candidate"]["rows_read"] < 70 || len(b.Duel.Types[0].Counters) != 0 ||
				!slices.Equal(read, []string{"baseline", "candidate"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := duels(t)
			c.change(f)
			b := fight(t, f)
			if succeeded(t, b); c.wrong(b, len(asked(t, f, "candidate"))) {
				t.Errorf("%+v", b.Duel)
			}
		})
	}
	t.Run("too few queries", func(t *testing.T) {
		t.Parallel()
		f := duels(t)
		f.Calibration.Counts[types[0]] = 170 // 340 to 510 of 400
		failed(t, fight(t, f), "duel", "exchange", "^60 of 170 exchanges of single-groupby-1-1-1 were compared: "+
			"there are no more than 60 operations")
	})
}

// A database ignores a request to merge while it merges: all are asked again before the block is void.
func TestSidesMergeUntilTheirDataLieAlike(t *testing.T) {
	for mode, void := range map[string]string{"deaf": "",
		"deaf deaf deaf deaf": "unequal starts: the data lie in 0 parts on one side and in 1 on another, by chance, " +
			"though they were merged"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := duels(t, "", mode)
			f.Plan.Settle = record.Settle{Mode: "merged", TimeoutS: 90}
			for _, v := range f.variants {
				v.Module.Counters["parts"] = record.Counter{Name: "vm_parts"}
				v.Module.BeforeMerge = v.Module.Quiet
			}
			if b := fight(t, f); b.Status != record.OK || b.Void != void || (void == "") != (len(b.Duel.Types) == 1) {
				t.Errorf("void %q, %+v", b.Void, b.Failures)
			}
		})
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
		v := &variant{in: &frame{Spec: record.Spec{Plan: plan}},
			Variant: &servers.Variant{Module: record.Target{BeforeMerge: []string{"active_merges"}}}}
		if got := v.mergesLater(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
		if v.Module.BeforeMerge = nil; v.mergesLater() {
			t.Errorf("%+v: a database that cannot be asked to merge", c)
		}
	}
}

// Nothing is measured then, and no variant is to blame.
func TestASideThatDoesNotStandStillVoidsTheBlock(t *testing.T) {
	f := duels(t)
	before := proc.HoldPatience
	t.Cleanup(func() { proc.HoldPatience = before })
	proc.HoldPatience = -1
	b := fight(t, f)
	if b.Status != record.OK || len(b.Failures) > 0 || !strings.Contains(b.Void, " did not stand still ") {
		t.Errorf("%s, void: %q, %+v", b.Status, b.Void, b.Failures)
	}
}
