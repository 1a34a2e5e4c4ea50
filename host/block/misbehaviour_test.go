package block

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tsduel/host/record"
	"tsduel/host/scrape"
)

// If a database misbehaves, the block fails within seconds, with a sentence, in the right phase.
func TestMisbehaviour(t *testing.T) {
	for _, c := range []struct {
		mode, phase, sentence string
		change                func(*record.Plan)
	}{
		{"unhealthy", "start", "the server did not become healthy within 1s: ",
			func(p *record.Plan) { p.Watchdog.HealthS = 1 }},
		{"bad-flag", "start", `died: flag provided but not defined: -nonsense \(its log: `, nil},
		{"open", "start", "^candidate listens for others, at 0.0.0.0:", nil},
		{"die-in-load", "load", `\) died: `, nil},
		{"503", "load", "no sample was acknowledged for 8 s: the server answers HTTP status 503; ",
			func(p *record.Plan) { p.Watchdog.LoadStallS = 8 }},
		{"hang-metrics", "settle",
			"the database did not settle within 4 s: its counters cannot be read at http://127.0.0.1:",
			func(p *record.Plan) { p.Settle.TimeoutS, scrape.Timeout = 4, 4*time.Second }},
		{"merging", "settle", "the database did not settle within 4 s: 1 still to do",
			func(p *record.Plan) { p.Settle.TimeoutS = 4 }},
		{"drop", "settle", `the database stored 0 samples of 480 \(vm_rows_added_to_storage_total\)`, nil},
		{"ignore-term", "stop", "had to be killed: it did not stop within 8s", func(p *record.Plan) { p.Watchdog.StopS = 8 }},
		{"blow-up", "stop", "the server's log has a panic or a fatal error: panic: BUG: at the very end", nil},
		{"query-error", "query", "ended with exit code 2: panic: http request did not return status 200", nil},
		{"hang-query", "query", "no query was answered for 2 s", func(p *record.Plan) { p.Watchdog.QueryStallS = 2 }},
		{"die-in-query", "query", `\) died: `, nil},
		{"no-rows", "query", "the queries of single-groupby-1-1-1 read no data: vm_rows_read_per_query_sum did not move",
			nil},
	} {
		t.Run(c.mode, func(t *testing.T) {
			if c.mode == "hang-metrics" { // it shortens a time of all tests
				defer func(usual time.Duration) { scrape.Timeout = usual }(scrape.Timeout)
			} else {
				t.Parallel()
			}
			spec := fakes(t, "", c.mode)
			if c.change != nil {
				c.change(spec.Plan)
			}
			b := run(t, spec)
			f := failed(t, b, record.Solo, c.phase, c.sentence)
			// The baseline, whose turn would have come, is not tried.
			if _, tried := b.Solo["baseline"]; tried || b.Status != record.Failed || strings.Contains(f.Message, ".partial") {
				t.Errorf("%s, the baseline was run: %t; %s", b.Status, tried, f.Message)
			}
			if last := b.Checks[len(b.Checks)-1]; last.Check != "block_finished" || last.OK || last.Variant != "candidate" ||
				last.Message != f.Message {
				t.Errorf("%+v", last)
			}
		})
	}
}

// A component that misbehaves fails its variant, and the sentence names the component if it is known.
func TestComponentsMisbehave(t *testing.T) {
	for _, c := range []struct {
		role, wrong, part, phase, sentence string
		change                             func(*record.Plan)
	}{
		{"vmauth", "slow=90", "solo", "start", "the vmauth did not become healthy within 12s: ",
			func(p *record.Plan) { p.Watchdog.HealthS = 12 }},
		{"vmauth", "die=write", "solo", "load", `the vmauth \(pid `, nil},
		{"vmauth", "502=write", "solo", "load", "the loader complained on ", nil},
		{"vmauth", "502=query_range", "solo", "query",
			"ended with exit code 2: panic: http request did not return status 200", nil},
		{"vmauth", "502=query_range", "duel", "exchange", `\): HTTP 502: no backend; `,
			func(p *record.Plan) { p.Queries.Solo, p.Duel.Load = false, false }},
		{"vmagent", "drop", "solo", "settle", "; vmagent acknowledged them, and nothing came for 8 s",
			func(p *record.Plan) { p.Watchdog.LoadStallS = 8 }},
		{"vmagent", "die=write", "solo", "load", `the vmagent \(pid `, nil},
		// The count also finds a batch that the agent's queue loses in exchanged ingestion.
		{"vmagent", "drop-exchanged", "duel", "settle", "the database accepted 320 samples of 480",
			func(p *record.Plan) { p.Queries.Solo, p.Watchdog.LoadStallS, p.Workload.BatchSize = false, 3, 16 }},
	} {
		t.Run(c.role+" "+c.wrong+" "+c.part, func(t *testing.T) {
			t.Parallel()
			spec := fakes(t)
			behind(spec, map[string]string{c.role: c.wrong})
			if c.change != nil {
				c.change(spec.Plan)
			}
			failed(t, run(t, spec), c.part, c.phase, c.sentence)
		})
	}
}

// Commands of TSBS may misbehave, too.
func TestLoadersMisbehave(t *testing.T) {
	for variable, sentence := range map[string]string{
		"FAKE_LOST_SAMPLES=10": "^the loader says it sent 470 samples, and the plan has 480$",
		"FAKE_BACKOFF=1.00":    `^the loader complained on 1 lines, the first: \[worker 0\] backoff took 1.00sec$`,
	} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			spec := fakes(t)
			first(t, spec, "load", "export "+variable)
			failed(t, run(t, spec), record.Solo, "load", sentence)
		})
	}
}

// A client that hangs at its start is no fault of the database: it is started again.
func TestAClientThatHangs(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	hangs := filepath.Join(spec.RunDir, "hangs")
	check(t, os.WriteFile(hangs, []byte("once\n"), 0o644))
	first(t, spec, "query", "export FAKE_HANGS="+hangs)
	spec.Plan.Watchdog.QueryStallS = 60 // long after the client is given up (5 s)
	spec.Row.Order = []string{"baseline"}
	b := run(t, spec)
	succeeded(t, b)
	if last := b.Phases[len(b.Phases)-1]; last.Phase != "query" || last.Attempts != 2 {
		t.Errorf("%+v", last)
	}
	if told := events(spec); !strings.Contains(told, "fault of the client") {
		t.Error(told)
	}
}

// Packed data are unpacked by us, and a port that is taken is not used.
func TestPackedDataAndATakenPort(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	l := must(net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(spec.Plan.Host.Port)))
	defer l.Close()
	spec.Row.Order, spec.Plan.Queries.Solo = []string{"baseline"}, false
	packed := spec.Workload.Data[0].Path + ".zst"
	encoder := must(zstd.NewWriter(nil))
	check(t, os.WriteFile(packed, encoder.EncodeAll(must(os.ReadFile(spec.Workload.Data[0].Path)), nil), 0o644))
	spec.Workload.Data[0] = record.DataFile{Format: "f", Path: packed, FeedPath: packed, Samples: lines48 * 10}
	succeeded(t, run(t, spec))
}
