package block

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tsduel/host/machine"
	"tsduel/host/record"
)

// apart runs roles on other hosts, which are this machine at other addresses. dies takes them away.
func apart(t *testing.T, spec *record.Spec, roles map[string][]string) (dies context.CancelFunc) {
	t.Helper()
	ctx, dies := context.WithCancel(t.Context())
	var lending sync.WaitGroup
	spec.Plan.Topology, spec.Host.Host = record.Topology{"host1": {"client"}}, "host1"
	spec.Lent = &record.Lent{Token: strings.Repeat("a", 64), Port: freePortOf(t),
		Hosts: map[string]string{"host1": "127.0.0.1"}}
	for host, of := range roles {
		spec.Plan.Topology[host], spec.Lent.Hosts[host] = of, "127.0.0."+strings.TrimPrefix(host, "host")
		l := must(machine.Listen(spec.Lent, host))
		lending.Go(func() { _ = machine.Lend(ctx, l, spec.Lent.Token, time.Minute, nil) })
	}
	t.Cleanup(func() { dies(); lending.Wait() })
	return dies
}

// With the client on another host, the database listens only at its own host's address, its log is copied,
// and the noise of its host is kept.
func TestClientApart(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	spec.Plan.Duel = shortDuel
	apart(t, &spec, map[string][]string{"host2": {"server"}})
	b := run(t, spec)
	succeeded(t, b)
	if args := logged(t, spec, "baseline", "argv"); len(args) != 2 ||
		!strings.Contains(args[0], "-httpListenAddr=127.0.0.2:") {
		t.Error(args)
	}
	for _, p := range b.Phases {
		if n := p.Hosts["host2"]; (p.Noise != nil) != (n != nil) ||
			n != nil && (n.ServerS == nil || p.Phase != "idle" && *n.ServerS <= 0) {
			t.Errorf("%s: %+v", p.Phase, n)
		}
	}
	solo := b.Solo["candidate"]
	if b.Hosts["host2"] == nil || solo.Canary == nil || solo.CPUNS["load"] <= 0 || solo.Sizes["disk_bytes"] <= 0 ||
		b.Duel.Types[0].CPUNS["candidate"] <= 0 || b.Duel.RSSBytes["baseline"] <= 0 {
		t.Errorf("%+v %+v", solo, b.Duel)
	}
	checksPassed(t, b)
}

// Three components over two hosts find each other, and each is counted where it is.
func TestComponentsApart(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	behind(spec, "candidate", map[string]string{"vmauth": "", "vmagent": ""})
	spec.Plan.Queries.Solo = false
	apart(t, &spec, map[string][]string{"host2": {"server"}, "host3": {"vmauth", "vmagent"}})
	b := run(t, spec)
	succeeded(t, b)
	for role, ns := range b.Duel.Types[0].CPUNSByRole["candidate"] {
		if role != "vmagent" && ns <= 0 {
			t.Error(role, ns)
		}
	}
	for _, role := range []string{"vmauth", "vmagent", "server"} {
		if text, err := os.ReadFile(filepath.Join(spec.Dir, "candidate", role+".log")); err != nil || len(text) == 0 {
			t.Error(role, err)
		}
	}
}

// A server that dies on another host fails its variant with its last words.
func TestDeathApart(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	does(spec, "candidate", "die-in-query")
	apart(t, &spec, map[string][]string{"host2": {"server"}})
	b := run(t, spec)
	if len(b.Failures) != 1 || b.Failures[0].Variant != "candidate" ||
		!strings.Contains(b.Failures[0].Message, ") died: info: serving (its log: ") {
		t.Errorf("%+v", b.Failures)
	}
}

// A lost host is no variant's fault: the block has not failed, and is run again.
func TestHostLost(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	spec.Row.Order = []string{"candidate", "baseline"}
	does(spec, "candidate", "hang-query")
	dies := apart(t, &spec, map[string][]string{"host2": {"server"}})
	places := layout{scratch: spec.Scratch, plan: spec.Plan}
	log := filepath.Join(places.dataDir("logs", "candidate"), "server.log")
	go func() {
		defer dies()
		for t.Context().Err() == nil { // until it has the first query
			if text, _ := os.ReadFile(log); bytes.Contains(text, []byte("hanging")) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if b, err := Run(t.Context(), spec); err == nil || !strings.HasPrefix(err.Error(), "host2 does not answer any more") {
		t.Errorf("%v %+v", err, b)
	}
	nothingLeft(t, spec)
}

// An adapter that ignores DB_HOST fails at once with a sentence.
func TestAdapterOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	start := filepath.Join(spec.RunDir, "project", "scripts", "targets", "fake", "start")
	check(t, os.WriteFile(start, []byte("#!/usr/bin/env bash\nexec \"$DB_BINARY\" -storageDataPath=\"$DB_DATA_DIR\" "+
		"-httpListenAddr=\"127.0.0.1:$DB_PORT\"\n"), 0o755))
	for verb, does := range map[string]string{"ready": `exec "$TSDUEL_HOST" get "http://127.0.0.1:$DB_PORT/health"`,
		"endpoints": `echo "clients http://127.0.0.1:$DB_PORT"`} {
		check(t, os.WriteFile(filepath.Join(filepath.Dir(start), verb), []byte("#!/usr/bin/env bash\n"+does+"\n"), 0o755))
	}
	apart(t, &spec, map[string][]string{"host2": {"server"}})
	b := run(t, spec)
	if len(b.Failures) == 0 || !strings.Contains(b.Failures[0].Message,
		"the server does not listen at 127.0.0.2 (DB_HOST)") {
		t.Errorf("%+v", b.Failures)
	}
}

// forgetful is a machine that another run has used since: its data are gone.
type forgetful struct{ machine.Machine }

func (forgetful) ReadOnce(machine.Reading, *int64) error { return os.ErrNotExist }

// With design.reload once, loaded data are used if every host still has them; old logs are not.
func TestReloadOnceApart(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	spec.Plan.Design.Reload = "once"
	here := machine.NewHere(t.Context(), "")
	f := newFrame(spec, &machines{hosts: map[string]machine.Machine{"": here, "host2": here}}, nil)
	log := filepath.Join(f.dataDir("logs", "baseline"), "server.log")
	wantLoaded := func(want bool) {
		t.Helper()
		if loaded, err := f.prepare(); err != nil || loaded != want {
			t.Fatal(loaded, err)
		}
		if _, err := os.Stat(log); !os.IsNotExist(err) {
			t.Error(err)
		}
		check(t, os.MkdirAll(filepath.Dir(log), 0o755))
		check(t, os.WriteFile(log, []byte("panic: of this block\n"), 0o644))
	}
	wantLoaded(false)
	check(t, f.markLoaded(false))
	wantLoaded(true)
	f.hosts["host2"] = forgetful{here}
	wantLoaded(false)
	f.hosts["host2"] = here
	wantLoaded(false)
}

// Two clients at a rate send every operation once, from one instant on, and all samples are stored.
func TestTwoClientsAtARate(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	target := spec.Plan.Targets["fake"]
	target.WritePath = "/write"
	spec.Plan.Targets["fake"] = target
	spec.Host.Pin.Client = []int{0, 1, 2, 3}
	spec.Plan.Mixed = &record.Mixed{Rates: record.Rates{Seconds: 1, Types: types[:1], Arrivals: "poisson",
		Connections: 4, LateMS: 60_000, LatePct: 90}, Ingest: 160, Queries: 21, BatchSize: 2, Lines: lines48}
	spec.Workload.Mixed = spec.Workload.Data
	groups(t, &spec)
	apart(t, &spec, map[string][]string{"host2": {"server"}, "host3": {"client"}})
	b := run(t, spec)
	succeeded(t, b)
	for _, name := range []string{"baseline", "candidate"} {
		phase := b.Mixed[name].Phases[0]
		if phase.Void != "" || len(phase.Clients) != 2 || phase.Clients[0].Host != "host1" ||
			phase.Clients[1].Host != "host3" {
			t.Fatalf("%+v", phase)
		}
		// 21 queries and 8 batches of 2 lines, dealt out by turns.
		if a, b := phase.Clients[0], phase.Clients[1]; a.Started != 11+4 || b.Started != 10+4 || a.Lines != 8 ||
			b.Lines != 8 || phase.Samples != 160 {
			t.Errorf("%+v %+v: %d samples", a, b, phase.Samples)
		}
		for _, stream := range phase.Streams {
			if stream.Answered != stream.Planned || stream.Unstarted != 0 {
				t.Errorf("%+v", stream)
			}
		}
	}
}

// groups deals the data out to two clients, line by line; the second one's is packed.
func groups(t *testing.T, spec *record.Spec) {
	t.Helper()
	spec.Plan.Queries.Solo = false
	lines := strings.SplitAfter(string(must(os.ReadFile(spec.Workload.Data[0].Path))), "\n")
	var of [2]strings.Builder
	for i, line := range lines {
		of[i%2].WriteString(line)
	}
	first, second := filepath.Join(spec.RunDir, "data.1-of-2"), filepath.Join(spec.RunDir, "data.2-of-2.zst")
	z := must(zstd.NewWriter(nil))
	check(t, os.WriteFile(first, []byte(of[0].String()), 0o644),
		os.WriteFile(second, z.EncodeAll([]byte(of[1].String()), nil), 0o644))
	spec.Workload.Data = nil
	spec.Workload.Groups = []record.DataFile{{Host: "host1", Format: "f", Path: first + ".zst", FeedPath: first,
		Samples: lines48 * 5},
		{Host: "host3", Format: "f", Path: second, FeedPath: second, Samples: lines48 * 5}}
}

// Two clients load a part of the data each, from one instant on, and all samples are stored.
func TestTwoClientsLoad(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	groups(t, &spec)
	apart(t, &spec, map[string][]string{"host2": {"server"}, "host3": {"client"}})
	b := run(t, spec)
	succeeded(t, b)
	for _, name := range []string{"baseline", "candidate"} {
		solo := b.Solo[name]
		if len(solo.Clients) != 2 || solo.Clients[0].Host != "host1" || solo.Clients[1].Host != "host3" {
			t.Fatalf("%+v", solo)
		}
		for _, c := range solo.Clients {
			if c.Samples != lines48*5 || c.BeganMS <= 0 || c.CPUNS <= 0 || c.CPUs == 0 || c.Share <= 0 ||
				solo.SkewMS >= max(solo.Clients[0].BeganMS, solo.Clients[1].BeganMS) {
				t.Errorf("%+v", c)
			}
			for _, suffix := range []string{".csv", ".json", ".stderr"} {
				if text, err := os.ReadFile(filepath.Join(spec.Dir, name, "load-"+c.Host+suffix)); err != nil ||
					suffix != ".stderr" && len(text) == 0 {
					t.Errorf("%s%s: %q %v", c.Host, suffix, text, err)
				}
			}
		}
	}
	for _, p := range b.Phases {
		if took := p.End - p.Begin; p.Phase == "load" && (p.Count != lines48*10 || took <= 0 || p.ClientUserS <= 0) {
			t.Errorf("%+v", p)
		}
	}
	for _, c := range b.Checks {
		if !c.OK || c.Check == "samples_sent" && c.Actual != lines48*10 {
			t.Errorf("%+v", c)
		}
	}
}

// If one of two loaders fails, the other ends, and the sentence names the failed one.
func TestOneOfTwoLoadersFails(t *testing.T) {
	for sentence, damage := range map[string]func(*testing.T, *record.Spec){
		"the loader on host3 ended with exit code 1": func(t *testing.T, spec *record.Spec) {
			spec.Workload.Groups[1].FeedPath = filepath.Join(spec.RunDir, "none")
			given(t, *spec, "load", "FAKE_LOAD_S=86400") // far longer than a test may take
		},
		"the loaders of 2 clients say they sent 478 samples together, and the plan has 480": func(t *testing.T,
			spec *record.Spec) {
			given(t, *spec, "load", "FAKE_LOST_SAMPLES=1")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			spec, _ := fakes(t)
			groups(t, &spec)
			apart(t, &spec, map[string][]string{"host2": {"server"}, "host3": {"client"}})
			damage(t, &spec)
			b := run(t, spec)
			if len(b.Failures) != 1 || b.Failures[0].Phase != "load" || !strings.Contains(b.Failures[0].Message, sentence) {
				t.Errorf("%+v", b.Failures)
			}
		})
	}
}

// A client's host that is lost in a load is no variant's fault, and the other client's loader ends.
func TestClientLostInALoad(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	spec.Row.Order = []string{"candidate", "baseline"}
	groups(t, &spec)
	given(t, spec, "load", "FAKE_LOAD_S=86400") // far longer than a test may take
	dies := apart(t, &spec, map[string][]string{"host2": {"server"}, "host3": {"client"}})
	go func() {
		for { // until both have begun
			if text, _ := os.ReadFile(filepath.Join(spec.Dir, "candidate", "load-host3.csv")); len(text) > 0 {
				dies()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if b, err := Run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), " does not answer any more") {
		t.Errorf("%v %+v", err, b)
	}
	nothingLeft(t, spec)
}
