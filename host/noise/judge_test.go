package noise

import (
	"maps"
	"slices"
	"testing"

	"tsduel/host/record"
)

func limits() *record.Limits {
	return &record.Limits{StealPct: new(5.0), ForeignCPUPct: new(5.0), CanaryPct: new(10.0), ClockStepS: new(0.2),
		ThrottledPct: new(1.0), StealFlagPct: new(1.0), ForeignCPUFlagPct: new(2.0),
		CanaryFlagPct: new(5.0), CanaryFsyncFlagPct: new(50.0), PressureIOFlagPct: new(20.0), PressureMemoryFlagPct: new(1.0),
		SwapFlagPages: new(1.0), PoolS: 5}
}

// phase is a phase on a quiet machine, changed by change.
func phase(name, queryType string, change func(*record.Noise)) record.Phase {
	n := &record.Noise{Seconds: 20, ClockStepS: new(0.001), CPUs: 2, BusyS: 30, IowaitS: 0.1, ServerS: new(20.0),
		OwnS: new(10.0), KernelS: new(0.1), ForeignS: new(0.1),
		ContextSwitches: 100, PressureS: map[string]float64{"cpu": 19, "io": 0.1, "memory": 0}}
	if change != nil {
		change(n)
	}
	return record.Phase{Variant: "candidate", Part: record.Solo, Phase: name, QueryType: queryType, Noise: n}
}

// block is a block with a quiet baseline, and a candidate with these phases.
func block(number int, phases ...record.Phase) *record.Block {
	b := record.NewBlock(record.BlockRow{Block: number, Kind: "measured"})
	quiet := phase("load", "", nil)
	b.Noise, quiet.Variant = quiet.Noise, "baseline"
	b.Phases = append([]record.Phase{quiet}, phases...)
	for _, name := range []string{"baseline", "candidate"} {
		b.Solo[name] = record.SoloRecord{Canary: &record.Canary{CPUS: 1, MemoryS: 0.5, FsyncS: 0.1}}
	}
	return b
}

func judged(l *record.Limits, blocks ...*record.Block) (states map[int]string, causes, flags []string) {
	report := Judge(&record.Plan{Noise: l}, blocks)
	states = map[int]string{}
	for _, b := range report.Blocks {
		states[b.Block] = b.State
		causes = append(causes, b.Causes...)
	}
	for _, s := range report.Signals {
		if s.Effect == "flag" {
			flags = append(flags, s.Message)
		}
	}
	return states, causes, flags
}

// Each cause from outside spoils its block, and no other. The sentence has the value, the limit and the
// place.
func TestCauses(t *testing.T) {
	load := func(change func(*record.Noise)) *record.Block { return block(1, phase("load", "", change)) }
	canary := func(cpu, memory float64) *record.Block {
		b := block(1, phase("load", "", nil))
		b.Solo["candidate"] = record.SoloRecord{Canary: &record.Canary{CPUS: cpu, MemoryS: memory, FsyncS: 0.1}}
		return b
	}
	step, maintenance, duel := block(1), block(1), block(1)
	step.Noise, maintenance.Maintenance = phase("", "", func(n *record.Noise) { n.ClockStepS = new(-3.25) }).Noise,
		"MIGRATE_ON_HOST_MAINTENANCE"
	duel.Phases = []record.Phase{phase("exchange", "cpu-max-all-1", func(n *record.Noise) { n.ForeignS = new(20.84) })}
	duel.Phases[0].Variant = ""
	for _, c := range []struct {
		block    *record.Block
		sentence string
	}{
		{load(func(n *record.Noise) { n.StealS = 2 }),
			"steal 5 % of the machine during load of candidate in block 1, limit 5 %"},
		{duel, "foreign CPU 52.1 % of the machine during exchange cpu-max-all-1 in block 1, limit 5 %"},
		{load(func(n *record.Noise) { n.Throttled, n.ThrottledS = 9, 0.9 }),
			"a limit of CPU time held us back for 4.5 % of load of candidate in block 1, limit 1 %"},
		{canary(1.13, 0.5),
			"the canary before candidate of block 1 took 13 % more than the run's median for its CPU spin, limit 10 %"},
		{canary(1, 0.4),
			"the canary before candidate of block 1 took 20 % less than the run's median for its memory copy, limit 10 %"},
		{step, "the clock was set by -3.25 s during block 1, limit 0.2 s"},
		{maintenance, "the host was under maintenance (MIGRATE_ON_HOST_MAINTENANCE) during block 1"},
	} {
		states, causes, _ := judged(limits(), block(3), c.block, block(2))
		if !slices.Equal(causes, []string{c.sentence}) ||
			!maps.Equal(states, map[int]string{1: record.Invalid, 2: record.Valid, 3: record.Valid}) {
			t.Errorf("%q %v", causes, states)
		}
	}
}

// Nothing that a version does spoils a block: ten times the time, all the CPU, the disk and swap.
func TestVersionsSpoilNothing(t *testing.T) {
	b := block(2, phase("load", "", func(n *record.Noise) {
		n.Seconds, n.BusyS, n.ServerS, n.OwnS, n.ContextSwitches, n.IowaitS, n.ForeignS = 200, 398, new(390.0), new(7.5), 1e7,
			90, new(0.4)
		n.PressureS = map[string]float64{"cpu": 200, "io": 150, "memory": 100}
	}))
	b.Noise = phase("", "", func(n *record.Noise) { n.SwapPages, n.TemperatureC = 1e6, new(99.0) }).Noise
	states, _, flags := judged(limits(), block(1), b)
	if states[2] != record.Valid || !slices.Equal(flags, []string{
		"somebody waited for io during 75 % of load of candidate in block 2, limit 20 %",
		"somebody waited for memory during 50 % of load of candidate in block 2, limit 1 %",
		"1000000 pages were swapped during block 2, limit 1 pages",
	}) {
		t.Errorf("%v %q", states, flags)
	}
}

// A value at its flag is reported, and the block stays valid. A limit of nil is never reached.
func TestFlags(t *testing.T) {
	b := block(1, phase("load", "", func(n *record.Noise) { n.StealS, n.ForeignS = 0.5, new(1.0) }))
	b.Solo["candidate"] = record.SoloRecord{Canary: &record.Canary{CPUS: 1.06, MemoryS: 0.5, FsyncS: 0.18}}
	states, _, flags := judged(limits(), b, block(2))
	if states[1] != record.Valid || !slices.Equal(flags, []string{
		"the canary before candidate of block 1 took 6 % more than the run's median for its CPU spin, limit 5 %",
		"the canary before candidate of block 1 took 80 % more than the run's median for its fsync'd writes, limit 50 %",
		"steal 1.3 % of the machine during load of candidate in block 1, limit 1 %",
		"foreign CPU 2.5 % of the machine during load of candidate in block 1, limit 2 %",
	}) {
		t.Errorf("%v %q", states, flags)
	}
	l := limits()
	l.StealPct, l.ForeignCPUPct, l.CanaryPct = nil, nil, nil
	b = block(1, phase("load", "", func(n *record.Noise) { n.StealS, n.ForeignS = 20, new(20.0) }))
	b.Solo["candidate"] = record.SoloRecord{Canary: &record.Canary{CPUS: 9}}
	// The last two flags are of the rest of the canary.
	states, _, flags = judged(l, b, block(2))
	failIf(t, states[1] != record.Valid || len(flags) != 5, "%v %q", states, flags)
}

// Phases that are too short for clock ticks are judged together by variant.
func TestPooled(t *testing.T) {
	brief := func(number int, last float64) *record.Block {
		var phases []record.Phase
		for i := range 9 {
			phases = append(phases, phase("query", string(rune('a'+i)), func(n *record.Noise) {
				n.Seconds, n.ForeignS = 0.9, new(0.0)
				if i == 8 {
					n.ForeignS = new(last)
				}
			}))
		}
		return block(number, phases...)
	}
	l := limits()
	l.ForeignCPUPct = new(15.0)
	states, causes, _ := judged(l, brief(1, 1.62), brief(2, 2.7))
	const sentence = "foreign CPU 16.7 % of the machine during the short phases of candidate in block 2, limit 15 %"
	if states[1] != record.Valid || states[2] != record.Invalid || !slices.Equal(causes, []string{sentence}) {
		t.Errorf("%v %q", states, causes)
	}
}

// A failed block is failed, and not invalid. The warm-up has signals, but no judgement.
func TestStates(t *testing.T) {
	foreign := phase("load", "", func(n *record.Noise) { n.ForeignS = new(30.0) })
	warmup, failed := block(0, foreign), block(1, foreign)
	warmup.Kind, failed.Status = "warmup", record.Failed
	states, _, flags := judged(limits(), warmup, failed)
	if !maps.Equal(states, map[int]string{1: record.Failed}) ||
		!slices.Contains(flags, "foreign CPU 75 % of the machine during load of candidate in block 0, limit 2 %") {
		t.Errorf("%v %q", states, flags)
	}
	if Judge(&record.Plan{}, nil) != nil {
		t.Error("a plan without limits is judged")
	}
}

// Most phases of a duel are as short as that.
func TestWhatIsTakenFromShortPhasesIsAddedUp(t *testing.T) {
	steal := func(n *record.Noise) { n.StealS = 0.2 }
	throttle := func(n *record.Noise) { n.ThrottledS = 0.2 }
	for what, change := range map[string]func(*record.Noise){
		"steal 10 % of the machine during the short phases of candidate in block 1, limit 5 %":             steal,
		"a limit of CPU time held us back for 20 % of the short phases of candidate in block 1, limit 1 %": throttle,
	} {
		brief := func(n *record.Noise) { n.Seconds, n.ForeignS = 1, new(0.0); change(n) }
		spoilt := block(1, phase("exchange", "a", brief), phase("exchange", "b", brief))
		states, causes, _ := judged(limits(), spoilt, block(2))
		if states[1] != record.Invalid || !slices.Equal(causes, []string{what}) {
			t.Errorf("%v %q", states, causes)
		}
	}
}
