package block

import (
	"strings"
	"testing"

	"tsduel/host/record"
)

func TestAPhaseIsVoidWhereTheClientIsWhatWasMeasured(t *testing.T) {
	stream := record.RateStream{Operation: "query", Planned: 1000, Started: 1000, Late: 5, Connections: 64, LatenessNS: map[string]int64{"p999": 2_500_000}}
	for _, c := range []struct {
		name   string
		change func(*record.RatePhase)
		void   string
	}{
		{"it kept the rate", func(*record.RatePhase) {}, ""},
		{"the server was behind", func(p *record.RatePhase) { p.Streams[0].Queued, p.Streams[0].Unstarted = 900, 90 }, ""},
		{"starts were late", func(p *record.RatePhase) { p.Streams[0].Late = 11 },
			"the client does not keep this rate: 1.1 % of 1000 operations (query) began over 1 ms late though a connection was free (p99.9 of lateness 2.5 ms), and 1 % are allowed"},
		{"its CPU was used up", func(p *record.RatePhase) { p.ClientShare = 0.93 },
			"the client does not keep this rate: it used 93 % of its CPUs, and is what was measured above 80 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &frame{Spec: record.Spec{Events: record.NewEvents(t.TempDir(), false)}, block: record.NewBlock(record.BlockRow{Block: 1})}
			phase := record.RatePhase{Streams: []record.RateStream{stream}}
			c.change(&phase)
			r := &rates{variant: &variant{}, rule: record.Rates{LateMS: 1, LatePct: 1}}
			f.judgeRate(f.begin(r.variant, record.InMixed, "mixed", ""), r, &phase, "the client")
			if phase.Void != c.void {
				t.Errorf("%q", strings.TrimSpace(phase.Void))
			}
		})
	}
}
