package block

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsduel/host/record"
	"tsduel/host/scrape"
)

// If a component or a loader misbehaves, the block fails within seconds, in the right phase. The sentence names the
// component if it is known.
func TestMisbehaviour(t *testing.T) {
	const solo = record.Solo
	exchanged := func(p *record.Plan) { p.Duel.Enabled = true }
	for _, c := range []struct {
		who, wrong, part, phase, sentence string
		change                            func(*record.Plan)
	}{
		{"server", "unhealthy", solo, "start", "the server did not become healthy within 1s: ",
			func(p *record.Plan) { p.Watchdog.HealthS = 1 }},
		{"server", "bad-flag", solo, "start", `died: flag provided but not defined: -nonsense \(its log: `, nil},
		{"server", "open", solo, "start", "^candidate listens for others, at 0.0.0.0:", nil},
		{"server", "die-in-load", solo, "load", `\) died: `, nil},
		{"server", "503", solo, "load", "no sample was acknowledged for 8 s: the server answers HTTP status 503; ",
			func(p *record.Plan) { p.Watchdog.LoadStallS = 8 }},
		{"server", "hang-metrics", solo, "settle",
			"the database did not settle within 4 s: its counters cannot be read at http://127.0.0.1:",
			func(p *record.Plan) { // also where a block has a limit
				p.Settle.TimeoutS, scrape.Timeout, p.Watchdog.BlockS = 4, 4*time.Second, new(600.0)
			}},
		{"server", "flood-metrics", solo, "settle", "^the counters of the server cannot be read: " +
			"GET http://127.0.0.1:.*/metrics: an answer of more than 64 MiB, and tsduel reads no more$", nil},
		{"server", "broken-metrics", solo, "settle", "^the counter vm_rows of /metrics cannot be read: .*: vm_rows{",
			func(p *record.Plan) { p.Targets["fake"].Counters["merges"] = record.Counter{Name: "vm_rows"} }},
		{"adapter", "yes >&2", solo, "stop", "^fake/size: an output of more than 64 MiB, and tsduel reads no more$", nil},
		{"server", "twice", "duel", "exchange",
			`^operation \d+ \(/.*\): more than one answer came to one operation; behind it stands "HTTP/1.1 200 OK`, exchanged},
		{"server", "merging", solo, "settle", "the database did not settle within 4 s: 1 still to do",
			func(p *record.Plan) { p.Settle.TimeoutS = 4 }},
		{"server", "drop", solo, "settle", `the database stored 0 samples of 480 \(vm_rows_added_to_storage_total\)`, nil},
		{"server", "ignore-term", solo, "stop", "had to be killed: it did not stop within 8s",
			func(p *record.Plan) { p.Watchdog.StopS = 8 }},
		{"server", "blow-up", solo, "stop", "the server's log has a panic or a fatal error: panic: BUG: at ", nil},
		{"server", "query-error", solo, "query", "exit code 2: panic: http request did not return status 200", nil},
		{"server", "hang-query", solo, "query", "no query was answered for 2 s",
			func(p *record.Plan) { p.Watchdog.QueryStallS = 2 }},
		{"server", "flood", solo, "query",
			`\) died: tsduel ended it for writing too much: its log had \d+ MiB \(its log: `, nil},
		{"server", "no-rows", solo, "query",
			"the queries of single-groupby-1-1-1 read no data: vm_rows_read_per_query_sum did not move", nil},
		{"vmauth", "die=write", solo, "load", `the vmauth \(pid `, nil},
		{"vmauth", "502=write", solo, "load", "the loader complained on ", nil},
		{"vmagent", "drop", solo, "settle", "; vmagent acknowledged them, and nothing came for 8 s",
			func(p *record.Plan) { p.Watchdog.LoadStallS = 8 }},
		// The count also finds a batch that the agent's queue loses in exchanged ingestion.
		{"vmagent", "drop-exchanged", "duel", "settle", "the database accepted 320 samples of 480",
			func(p *record.Plan) { p.Queries.Solo, p.Watchdog.LoadStallS, p.Workload.BatchSize = false, 3, 16 }},
		{"loader", "FAKE_LOST_SAMPLES=10", solo, "load", "^the loader says it sent 470 samples, and the plan has 480$", nil},
		{"loader", "FAKE_BACKOFF=1.00", solo, "load",
			`^the loader complained on 1 lines, the first: \[worker 0\] backoff took 1.00sec$`, nil},
	} {
		t.Run(c.who+" "+c.wrong, func(t *testing.T) {
			if c.wrong == "hang-metrics" { // it shortens a time of all tests
				defer func(usual time.Duration) { scrape.Timeout = usual }(scrape.Timeout)
			} else {
				t.Parallel()
			}
			spec := fakes(t)
			switch c.who {
			case "server":
				spec.Plan.Variants[1].Components[0].Env["FAKE_MODE"] = c.wrong
			case "adapter": // of the candidate, whose number is drawn
				first(t, spec, "size", `[[ $DB_DATA_DIR != */loaded/01/* ]] || { `+c.wrong+`; }`)
			case "loader":
				first(t, spec, "load", "export "+c.wrong)
			default:
				behind(spec, map[string]string{c.who: c.wrong})
			}
			if c.change != nil {
				c.change(spec.Plan)
			}
			b := run(t, spec)
			f := failed(t, b, c.part, c.phase, c.sentence)
			// The baseline, whose turn would have come, is not tried.
			if _, tried := b.Solo["baseline"]; tried && c.part == solo || b.Status != record.Failed ||
				strings.Contains(f.Message, ".partial") {
				t.Errorf("%s, the baseline was run: %t; %s", b.Status, tried, f.Message)
			}
			if last := b.Checks[len(b.Checks)-1]; last.Check != "block_finished" || last.OK || last.Variant != "candidate" ||
				last.Message != f.Message {
				t.Errorf("%+v", last)
			}
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

// A block that takes longer than the plan allows has failed, and nobody is to blame for it; the run goes on.
func TestABlockThatTakesTooLong(t *testing.T) {
	t.Parallel()
	spec, longest := fakes(t), 5.0
	spec.Plan.Variants[1].Components[0].Env["FAKE_MODE"], spec.Plan.Watchdog.BlockS = "hang-query", &longest
	b := run(t, spec)
	if f := b.Failures; b.Status != record.Failed || len(f) != 1 || f[0].Variant != "" ||
		f[0].Message != "it took longer than 5 s (watchdog.block_s)" {
		t.Errorf("%s %+v", b.Status, b.Failures)
	}
}
