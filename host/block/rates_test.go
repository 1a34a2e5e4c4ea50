package block

import (
	"slices"
	"strings"
	"testing"

	"tsduel/host/record"
)

func TestAPhaseIsVoidWhereTheClientIsWhatWasMeasured(t *testing.T) {
	stream := record.RateStream{Operation: "query", Connections: 64,
		Operations: record.Operations{Planned: 1000, Started: 1000, Late: 5},
		LatenessNS: map[string]int64{"p999": 2_500_000}}
	for _, c := range []struct {
		name   string
		change func(*record.RatePhase)
		void   string
	}{
		{"it kept the rate", func(*record.RatePhase) {}, ""},
		{"the server was behind", func(p *record.RatePhase) { p.Streams[0].Queued, p.Streams[0].Unstarted = 900, 90 }, ""},
		{"starts were late", func(p *record.RatePhase) { p.Streams[0].Late = 11 },
			"the client does not keep this rate: 1.1 % of 1000 operations (query) began over 1 ms late though a connection " +
				"was free (p99.9 of lateness 2.5 ms), and 1 % are allowed"},
		{"its CPU was used up", func(p *record.RatePhase) { p.ClientShare = 0.93 },
			"the client does not keep this rate: it used 93 % of its CPUs, and is what was measured above 80 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := record.Spec{Plan: &record.Plan{Variants: []record.Variant{{}}}, Row: record.BlockRow{Block: 1},
				Events: record.NewEvents(t.TempDir(), t.TempDir(), false)}
			phase := record.RatePhase{Streams: []record.RateStream{stream}}
			c.change(&phase)
			r := &rates{variant: newVariant(newFrame(spec, nil), record.Variant{}),
				rule: record.Rates{LateMS: 1, LatePct: 1}}
			r.judge(r.begin(record.InMixed, "mixed", ""), &phase)
			if phase.Void != c.void {
				t.Errorf("%q", strings.TrimSpace(phase.Void))
			}
		})
	}
}

// Each operation of a phase is sent once, and all samples are stored. A ladder goes on where the rung before ended.
// It does not run beside other tests: their CPU would count as the client's.
func TestAtRates(t *testing.T) {
	spec := fakes(t)
	spec.Plan.Queries.Solo = false
	rates := record.Rates{Seconds: 0.5, Types: types, Arrivals: "poisson", Connections: 4, LateMS: 60_000, LatePct: 90}
	spec.Plan.Mixed = &record.Mixed{Rates: rates, Ingest: 320, Queries: 42, BatchSize: 2, Lines: lines48}
	spec.Plan.Capacity = &record.Capacity{Rates: rates, Ladder: []float64{20, 40}, Percentile: "p99", WithinMS: 600_000}
	spec.Workload.Mixed = spec.Workload.Data
	b := run(t, spec)
	succeeded(t, b)
	checksPassed(t, b)
	if told := Phases(spec.Plan, spec.Row, nil); told != len(b.Phases) {
		t.Errorf("%d phases, and %d were to be expected", len(b.Phases), told)
	}
	for _, name := range []string{"baseline", "candidate"} {
		mixed, rungs := b.Mixed[name].Phases, b.Capacity[name].Phases
		planned := []int{}
		for _, phase := range slices.Concat(mixed, rungs) {
			for _, stream := range phase.Streams {
				planned = append(planned, stream.Planned)
				if stream.Answered != stream.Planned || stream.Unstarted != 0 || stream.Connections != 4 || phase.Void != "" {
					t.Errorf("%+v of %+v", stream, phase)
				}
			}
		}
		if !slices.Equal(planned, []int{21, 8, 10, 20}) || mixed[0].Samples != 160 || !rungs[0].Held || !rungs[1].Held {
			t.Errorf("%v, %d samples, %+v", planned, mixed[0].Samples, rungs)
		}
	}
}

// The time from the intended start counts, and not that from when a connection was free.
func TestARungIsHeldByItsResponseTimesAndByAllOfItsOperations(t *testing.T) {
	for want, change := range map[bool][]func(*record.RatePhase){true: {func(*record.RatePhase) {}}, false: {
		func(p *record.RatePhase) { p.Streams[0].ResponseNS["p99"] = 5_100_000 },
		func(p *record.RatePhase) { p.Streams[0].Failed = 1 },
		func(p *record.RatePhase) { p.Streams[0].Unstarted = 1 },
		func(p *record.RatePhase) { p.Void = "the client does not keep this rate" },
	}} {
		for i, do := range change {
			phase := &record.RatePhase{Streams: []record.RateStream{{
				ResponseNS: map[string]int64{"p50": 9_000_000, "p99": 4_900_000}, ServiceNS: map[string]int64{"p99": 2_000_000}}}}
			do(phase)
			if held(&record.Capacity{Percentile: "p99", WithinMS: 5}, phase) != want {
				t.Errorf("%d is not %t", i, want)
			}
		}
	}
}

func TestALadderEndsAfterTwoRungsThatAreNotHeld(t *testing.T) {
	spec := fakes(t)
	spec.Plan.Queries.Solo = false
	rates := record.Rates{Seconds: 0.3, Types: types, Arrivals: "poisson", Connections: 4, LateMS: 60_000, LatePct: 90}
	spec.Plan.Capacity = &record.Capacity{Rates: rates, Ladder: []float64{20, 30, 40}, Percentile: "p99", WithinMS: 1e-6}
	b := run(t, spec)
	if rungs := b.Capacity["baseline"].Phases; len(rungs) != missedInARow || rungs[0].Held || rungs[1].Held {
		t.Errorf("%+v", rungs)
	}
}

func TestTheClientsShareIsOfTheCPUsThatItMayUse(t *testing.T) {
	for cpus, pinned := range map[float64][]int{16: nil, 2: {0, 1}} {
		f := &frame{Spec: record.Spec{Host: record.Facts{CPUs: 16, Pin: record.Pin{Client: pinned}}}}
		if f.clientCPUs() != cpus {
			t.Errorf("%g of %v", f.clientCPUs(), pinned)
		}
	}
}
