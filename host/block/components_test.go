package block

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsduel/host/machine"
	"tsduel/host/record"
)

// behind puts proxies before a variant's database, vmauth first: role -> what is wrong with it.
func behind(spec record.Spec, name string, wrong map[string]string) {
	target := spec.Plan.Targets["fake"]
	target.Queues, target.WritePath = []string{"vmagent"}, "/write"
	target.Quiet = append(target.Quiet, "queued")
	target.Counters["queued"] = record.Counter{Name: "vmagent_remotewrite_pending_data_bytes", Role: "vmagent"}
	target.Counters["merges"] = record.Counter{Name: "vm_merges_total", Role: "server"}
	spec.Plan.Targets["fake"] = target
	spec.Plan.Duel = shortDuel
	spec.Plan.Duel.Load = true
	spec.Workload.Data[0].Lines = lines48
	build := spec.Builds.Variants[name]
	for i, v := range spec.Plan.Variants {
		if v.Name != name {
			continue
		}
		server := v.Components[0]
		spec.Plan.Variants[i].Components = nil
		for _, role := range []string{"vmauth", "vmagent"} {
			if mode, there := wrong[role]; there {
				spec.Plan.Variants[i].Components = append(spec.Plan.Variants[i].Components, record.Component{Role: role,
					Env: map[string]string{"FAKE_PROXY": mode}, Files: map[string]string{"relabel.yml": "- action: keep\n"}})
				build.Components = append(build.Components,
					record.Built{Role: role, Binary: filepath.Join(spec.Builds.TSBSBin, "proxy")})
			}
		}
		spec.Plan.Variants[i].Components = append(spec.Plan.Variants[i].Components, server)
	}
	build.Components = append(build.Components, record.Built{Role: "server", Binary: build.Binary})
	spec.Builds.Variants[name] = build
}

// A variant behind a proxy and an agent is one variant: usage is added up and kept by role, and samples that
// the agent has queued count after they are stored.
func TestComponentsAreOneVariant(t *testing.T) {
	t.Parallel()
	spec, calls := fakes(t)
	behind(spec, "candidate", map[string]string{"vmauth": "slow=0.5", "vmagent": ""})
	b := run(t, spec)
	succeeded(t, b)
	solo := b.Solo["candidate"]
	for _, role := range []string{"vmauth", "vmagent", "server"} {
		for what, by := range map[string]map[string]int64{
			"CPU of the load": solo.CPUNSByRole["drained"], "CPU of the closed loop": solo.CPUNSByRole["query:"+types[0]],
			"bytes on disk":    solo.SizesByRole["disk_bytes"],
			"CPU of exchanges": b.Duel.Types[0].CPUNSByRole["candidate"],
			"CPU of ingestion": b.Duel.Load[0].CPUNSByRole["candidate"], "memory": b.Duel.RSSByRole["candidate"],
		} {
			// no query comes by it
			asked := role != "vmagent" || !strings.Contains(what, "loop") && !strings.Contains(what, "exchanges")
			if asked && by[role] <= 0 || len(by) != 3 {
				t.Errorf("%s: %v", what, by)
			}
		}
		if log := string(must(os.ReadFile(filepath.Join(spec.Dir, "candidate", role+".log")))); role != "server" &&
			!strings.Contains(log, "files relabel.yml\n") {
			t.Errorf("%s began in a directory with others' files: %s", role, log)
		}
	}
	if sum := usage(solo.CPUNSByRole["load"]).sum(); sum != solo.CPUNS["load"] {
		t.Errorf("%d and not %d", sum, solo.CPUNS["load"])
	}
	// The direct one is kept by role too, to be held against it; and it queues nothing.
	if by := b.Duel.Types[0].CPUNSByRole["baseline"]; len(by) != 1 || by["server"] <= 0 ||
		b.Solo["baseline"].ArriveS != nil || solo.ArriveS == nil {
		t.Errorf("%v %+v", by, b.Solo)
	}
	// Last to first, each verb with its role; of settle every one.
	seen := regexp.MustCompile(`ready( vmauth| vmagent)? ?`).ReplaceAllString(strings.Join(calls(), " "), "")
	if want := "start start vmagent start vmauth endpoints vmauth endpoints vmagent endpoints load vmauth settle " +
		"vmauth settle vmagent settle stop vmauth stop vmagent stop"; !strings.HasPrefix(seen, want) {
		t.Error(seen)
	}
	checksPassed(t, b)
}

// A component that misbehaves fails its variant, and the sentence names the component if it is known.
func TestComponentsMisbehave(t *testing.T) {
	for _, c := range []struct {
		role, wrong, part, phase, sentence string
		change                             func(*record.Plan)
	}{
		{"vmauth", "slow=90", "solo", "start", "the vmauth did not become healthy within 12s: ",
			func(p *record.Plan) { p.Watchdog.HealthS = 12 }},
		{"vmauth", "die=write", "solo", "load", "the vmauth (pid ", nil},
		{"vmauth", "502=write", "solo", "load", "the loader complained on ", nil},
		{"vmauth", "502=query_range", "solo", "query",
			"ended with exit code 2: panic: http request did not return status 200", nil},
		{"vmauth", "502=query_range", "duel", "exchange", "): HTTP 502: no backend; ",
			func(p *record.Plan) { p.Queries.Solo = false }},
		{"vmagent", "drop", "solo", "settle", "; vmagent acknowledged them, and nothing came for 8 s",
			func(p *record.Plan) { p.Watchdog.LoadStallS = 8 }},
		{"vmagent", "die=write", "solo", "load", "the vmagent (pid ", nil},
	} {
		t.Run(c.role+" "+c.wrong+" "+c.part, func(t *testing.T) {
			t.Parallel()
			spec, _ := fakes(t)
			behind(spec, "candidate", map[string]string{c.role: c.wrong})
			if c.change != nil {
				c.change(spec.Plan)
			}
			b := run(t, spec)
			if len(b.Failures) != 1 {
				t.Fatalf("%+v", b.Failures)
			}
			if f := b.Failures[0]; f.Variant != "candidate" || f.Part != c.part || f.Phase != c.phase ||
				!strings.Contains(f.Message, c.sentence) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// The count also finds a batch that the agent's queue loses in exchanged ingestion.
func TestExchangedIngestionCountsWhatArrives(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	behind(spec, "candidate", map[string]string{"vmagent": ""})
	spec.Plan.Queries.Solo, spec.Plan.Watchdog.LoadStallS, spec.Plan.Workload.BatchSize = false, 1, 16
	spec.Plan.Variants[1].Components[0].Env["FAKE_PROXY"] = "drop-exchanged"
	b := run(t, spec)
	if len(b.Failures) != 1 || b.Failures[0].Part != record.InDuel ||
		!strings.Contains(b.Failures[0].Message, "the database accepted 320 samples of 480") {
		t.Errorf("%+v", b.Failures)
	}
}

// No port is given twice, even if a component listens on its further ports late.
func TestPortsAreGivenOnce(t *testing.T) {
	l := &layout{plan: &record.Plan{Host: record.HostSettings{Port: 21000}}, seats: map[int]*seat{}}
	here, taken := machine.NewHere(t.Context(), "127.0.0.1"), l.takeSeat()
	first := &server{role: "vmstorage", address: "127.0.0.1", ports: map[string]int{}}
	first.port = must(l.freePort(taken, here))
	first.ports["vm-insert"] = must(l.freePort(taken, here))
	if next := must(l.freePort(l.takeSeat(), here)); next == first.port || next == first.ports["vm-insert"] ||
		first.port == first.ports["vm-insert"] {
		t.Error(first, next)
	}
	if at := strings.Join(first.addresses(), " "); !strings.HasPrefix(at, "DB_AT_VMSTORAGE=127.0.0.1:") ||
		!strings.Contains(at, " DB_AT_VMSTORAGE_VM_INSERT=127.0.0.1:") {
		t.Error(at)
	}
}
