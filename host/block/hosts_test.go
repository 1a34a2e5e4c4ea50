package block

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// Three components over two hosts find each other, apart from the client. The database listens only at its own
// host's address, each is counted where it is, its log is copied, and the noise of its host is kept.
func TestComponentsApart(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	behind(spec, map[string]string{"vmauth": "", "vmagent": ""})
	apart(t, &spec, map[string][]string{"host2": {"server"}, "host3": {"vmauth", "vmagent"}})
	b := run(t, spec)
	succeeded(t, b)
	checksPassed(t, b)
	if args := logged(spec, "baseline/server.log", "argv"); len(args) != 2 ||
		!strings.Contains(args[0], "-httpListenAddr=127.0.0.2:") {
		t.Error(args)
	}
	used := 0.0 // a short phase may take less than the kernel's tick of 10 ms
	for _, p := range b.Phases {
		n := p.Hosts["host2"]
		if (p.Noise != nil) != (n != nil) || n != nil && n.ServerS == nil {
			t.Errorf("%s: %+v", p.Phase, n)
		} else if n != nil {
			used += *n.ServerS
		}
	}
	if used <= 0 {
		t.Error("no phase has CPU time of the server")
	}
	solo := b.Solo["candidate"]
	if b.Hosts["host2"] == nil || solo.Canary == nil || solo.CPUNS["load"] <= 0 || solo.Sizes["disk_bytes"] <= 0 ||
		b.Duel.RSSBytes["baseline"] <= 0 {
		t.Errorf("%+v %+v", solo, b.Duel)
	}
	for _, role := range []string{"vmauth", "vmagent", "server"} {
		if ns := b.Duel.Types[0].CPUNSByRole["candidate"][role]; role != "vmagent" && ns <= 0 {
			t.Error(role, ns)
		}
		if text, err := os.ReadFile(filepath.Join(spec.Dir, "candidate", role+".log")); err != nil || len(text) == 0 {
			t.Error(role, err)
		}
	}
}

// A server that dies on another host fails its variant with its last words.
func TestDeathApart(t *testing.T) {
	t.Parallel()
	spec := fakes(t, "", "die-in-query")
	apart(t, &spec, map[string][]string{"host2": {"server"}})
	b := run(t, spec)
	failed(t, b, record.Solo, "query", `\) died: info: serving \(its log: `)
}

// A log that grows on another host is cut there, and what comes here ends with that.
func TestFloodApart(t *testing.T) {
	t.Parallel()
	spec := fakes(t, "", "flood")
	apart(t, &spec, map[string][]string{"host2": {"server"}})
	b := run(t, spec)
	failed(t, b, record.Solo, "query", `\) died: tsduel ended it for writing too much: its log had `)
	text := string(must(os.ReadFile(filepath.Join(spec.Dir, "candidate", "server.log"))))
	if len(text) > 3<<20 || !strings.HasPrefix(text, "argv ") || !strings.Contains(text, "\n[tsduel has cut ") ||
		!strings.HasSuffix(text, " MiB\n") {
		t.Errorf("%d bytes: %.100q", len(text), text)
	}
}

// growing is a machine with a log that grows as fast as it is read.
type growing struct{ machine.Machine }

func (growing) Log(_ machine.Piece, text *[]byte) error {
	*text = make([]byte, 4<<20)
	return nil
}

// To bring a log ends though it grows, and a log that was cut meanwhile is brought again from its begin.
func TestToBringALog(t *testing.T) {
	dir := t.TempDir()
	remote, local := filepath.Join(dir, "remote"), filepath.Join(dir, "local")
	check(t, bring(growing{}, remote, local))
	if info := must(os.Stat(local)); info.Size() > proc.MostLog+4<<20 {
		t.Errorf("%d bytes", info.Size())
	}
	here := machine.NewHere(t.Context(), "")
	check(t, os.Remove(local))
	for _, text := range []string{"one\n", "one\ntwo\n", "one\ntwo\n", "cut\n", ""} {
		check(t, os.WriteFile(remote, []byte(text), 0o644), bring(here, remote, local))
		if got := string(must(os.ReadFile(local))); got != text {
			t.Errorf("%q and not %q", got, text)
		}
	}
}

// A lost host is no variant's fault: the block has not failed, and is run again.
func TestHostLost(t *testing.T) {
	t.Parallel()
	spec := fakes(t, "", "hang-query")
	spec.Row.Order = []string{"candidate", "baseline"}
	dies := apart(t, &spec, map[string][]string{"host2": {"server"}})
	places := layout{scratch: spec.Scratch, plan: spec.Plan}
	once(t, dies, "hanging", filepath.Join(places.dataDir("logs", "candidate"), "server.log")) // it has the first query
	if b, err := Run(t.Context(), spec); err == nil || !strings.HasPrefix(err.Error(), "host2 does not answer any more") {
		t.Errorf("%v %+v", err, b)
	}
	nothingLeft(t, spec)
}

// An adapter that ignores DB_HOST fails at once with a sentence.
func TestAdapterOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	script(t, adapter(spec.RunDir, "start"),
		`exec "$DB_BINARY" -storageDataPath="$DB_DATA_DIR" -httpListenAddr="127.0.0.1:$DB_PORT"`)
	script(t, adapter(spec.RunDir, "ready"), `exec 3<>"/dev/tcp/127.0.0.1/$DB_PORT"`)
	script(t, adapter(spec.RunDir, "endpoints"), `echo "clients http://127.0.0.1:$DB_PORT"`)
	apart(t, &spec, map[string][]string{"host2": {"server"}})
	b := run(t, spec)
	failed(t, b, record.Solo, "start", `the server does not listen at 127.0.0.2 \(DB_HOST\)`)
}

// forgetful is a machine that another run has used since: its data are gone.
type forgetful struct{ machine.Machine }

func (forgetful) ReadOnce(machine.Reading, *int64) error { return os.ErrNotExist }

// With design.reload once, loaded data are used if every host still has them; old logs are not.
func TestReloadOnceApart(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
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
	spec := fakes(t)
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
	for sentence, variable := range map[string]string{
		// The other one would load for far longer than a test may take.
		"the loader on host3 ended with exit code 1":                                        "FAKE_LOAD_S=86400",
		"the loaders of 2 clients say they sent 478 samples together, and the plan has 480": "FAKE_LOST_SAMPLES=1",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			spec := fakes(t)
			groups(t, &spec)
			apart(t, &spec, map[string][]string{"host2": {"server"}, "host3": {"client"}})
			first(t, spec, "load", "export "+variable)
			if strings.Contains(variable, "LOAD") {
				spec.Workload.Groups[1].FeedPath = filepath.Join(spec.RunDir, "none")
			}
			failed(t, run(t, spec), record.Solo, "load", sentence)
		})
	}
}

// A client's host that is lost in a load is no variant's fault, and the other client's loader ends.
func TestClientLostInALoad(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	spec.Row.Order = []string{"candidate", "baseline"}
	groups(t, &spec)
	first(t, spec, "load", "export FAKE_LOAD_S=86400") // far longer than a test may take
	dies := apart(t, &spec, map[string][]string{"host2": {"server"}, "host3": {"client"}})
	once(t, dies, "", filepath.Join(spec.Dir, "candidate", "load-host3.csv")) // both have begun
	if b, err := Run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), " does not answer any more") {
		t.Errorf("%v %+v", err, b)
	}
	nothingLeft(t, spec)
}
