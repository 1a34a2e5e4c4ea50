package block

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsduel/host/machine"
	"tsduel/host/record"
	"tsduel/host/servers"
)

// A whole block calls adapters and phases in order and checks all. Flags and environment arrive unchanged.
func TestWholeBlock(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	nasty := []string{"-a=with space", "-b=$(touch x)", "-c='\"`id`", "-d=two\nlines", "-e=*"}
	spec.Plan.Variants[0].Components[0].Flags = nasty
	spec.Plan.Variants[0].Components[0].Env = map[string]string{"FAKE_TEXT": "a 'b' \"c\" $(touch x)\nd;e",
		"PATH": "/nowhere:" + os.Getenv("PATH"), "FAKE_BUSY_S": "2"}
	spec.Row.QueryTypes = types
	spec.Plan.Queries.Count = nil
	spec.Plan.Settle.Polls = 3
	b := run(t, spec)
	succeeded(t, b)
	var phases, want []string
	var loaded, settled float64
	for _, p := range b.Phases {
		phases = append(phases, strings.TrimSpace(p.Variant+" "+p.Phase+" "+p.QueryType))
		if p.Phase == "load" && p.Count != lines48*10 || p.Phase == "query" && (p.Count < 20 || p.Count > 70) ||
			p.End < p.Begin {
			t.Errorf("%+v", p)
		}
		if timed := p.Phase == "load" || p.Phase == "settle" || p.Phase == "query"; timed != (p.Noise != nil) ||
			timed && p.Noise.ForeignS == nil {
			t.Errorf("noise of %s: %+v", p.Phase, p.Noise)
		}
		switch p.Variant + " " + p.Phase {
		case "baseline load":
			loaded = p.End
		case "baseline settle":
			settled = p.End
		}
	}
	for _, v := range []string{"candidate", "baseline"} {
		for _, p := range []string{"canary", "start", "load", "settle", "stop", "query " + types[0], "query " + types[1]} {
			want = append(want, v+" "+p)
		}
	}
	if told := Phases(spec.Plan, spec.Row, nil); !slices.Equal(phases, want) || told != len(phases) {
		t.Errorf("phases %q, and %d were to be expected", phases, told)
	}
	one := "start endpoints load settle stop size forget start endpoints query query query query stop"
	seen := slices.DeleteFunc(calls(spec), func(c string) bool { return c == "ready" })
	if got := strings.Join(seen, " "); got != one+" "+one {
		t.Errorf("calls %q", got)
	}
	for name, solo := range b.Solo {
		if solo.Sizes["data_bytes"] < 8192 || solo.Restarts != 1 ||
			solo.CPUNS["load"] <= 0 || solo.CPUNS["drained"] < solo.CPUNS["load"] || solo.CPUNS["query:"+types[0]] <= 0 ||
			solo.Canary.CPUS <= 0 {
			t.Errorf("%s: %+v", name, solo)
		}
	}
	// The fake is busy for 2 s. The first quiet poll counts, and not the two that protect what comes later.
	if drain := *b.Solo["baseline"].DrainS; drain < 1 || drain > settled-loaded-2*spec.Plan.Settle.PollS {
		t.Errorf("drain %v s of %v s", drain, settled-loaded)
	}
	var argv []string
	check(t, json.Unmarshal([]byte(logged(spec, "baseline/server.log", "argv")[0]), &argv))
	if !slices.Equal(argv[2:len(argv)-1], nasty) || !strings.HasPrefix(argv[len(argv)-1], "-httpListenAddr=127.0.0.1:") {
		t.Errorf("argv %q", argv)
	}
	if env := logged(spec, "baseline/server.log", "env")[0]; !strings.Contains(env,
		`"FAKE_TEXT": "a 'b' \"c\" $(touch x)\nd;e"`) {
		t.Errorf("env %s", env)
	}
	checksPassed(t, b)
	if len(b.Checks) != 2*(12+2*4+1) {
		t.Errorf("%d checks: %+v", len(b.Checks), b.Checks)
	}
}

// queries.cache decides the state of the database's caches when a type is timed.
func TestCaches(t *testing.T) {
	for cache, want := range map[string]struct {
		starts  int
		queries int
		flag    bool
	}{"cold": {3, 2, false}, "warm": {2, 4, false}, "off": {2, 2, true}} {
		t.Run(cache, func(t *testing.T) {
			t.Parallel()
			spec := fakes(t)
			spec.Plan.Queries.Cache, spec.Row.QueryTypes, spec.Row.Order = cache, types, []string{"baseline"}
			b := run(t, spec)
			succeeded(t, b)
			// Before each start its caches on disk were deleted, and counters belong to the process that they are of.
			if found := logged(spec, "baseline/server.log", "cache"); len(found) != want.starts ||
				slices.Contains(found, "present") {
				t.Errorf("cache %q", found)
			}
			queries := strings.Count(strings.Join(calls(spec), " "), "query")
			if queries != want.queries || b.Solo["baseline"].Restarts != want.starts-1 {
				t.Errorf("%d queries, %d restarts", queries, b.Solo["baseline"].Restarts)
			}
			if strings.Contains(logged(spec, "baseline/server.log", "argv")[0], "-search.disableCache") != want.flag {
				t.Error("-search.disableCache")
			}
			if kept := must(filepath.Glob(filepath.Join(spec.Dir, "baseline", "query", "*"))); len(kept) != 4 {
				t.Errorf("kept %q", kept)
			}
		})
	}
}

// Of three variants the one that fails is left out. Without the baseline nothing is compared.
func TestThreeVariants(t *testing.T) {
	for broken, modes := range map[string][]string{"third": {"", "", "bad-flag"}, "baseline": {"bad-flag", "", ""}} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			spec := fakes(t, modes...)
			spec.Plan.Queries.Solo, spec.Plan.Duel.Enabled = false, true
			b := run(t, spec)
			if compared := b.Duel != nil && len(b.Duel.Types) > 0; compared != (broken == "third") {
				t.Errorf("%+v", b.Duel)
			}
			for _, v := range spec.Plan.Variants {
				if broken == "third" && v.Name != broken && b.Solo[v.Name].DrainS == nil {
					t.Errorf("%s was not run to its end", v.Name)
				}
			}
			if len(b.Failures) != 1 || b.Failures[0].Variant != broken {
				t.Errorf("%+v", b.Failures)
			}
		})
	}
}

// With design.reload once, later blocks begin with what the first one has loaded, as the load left it.
func TestReloadOnce(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	spec.Plan.Design.Reload, spec.Row.Order = "once", []string{"baseline"}
	// And a database that says what it has counted to its adapter alone is checked as any other.
	script(t, adapter(spec.RunDir, "endpoints"), `echo "clients http://127.0.0.1:$DB_PORT"`)
	run(t, spec)
	before := len(calls(spec))
	b := run(t, spec)
	if succeeded(t, b); b.Solo["baseline"].DrainS != nil || len(b.Phases) != 1 {
		t.Errorf("%+v", b.Phases)
	}
	again := calls(spec)[before:]
	if slices.Contains(again, "load") || !slices.Contains(again, "query") || !slices.Contains(again, "metrics") {
		t.Errorf("%q", again)
	}
	// Each block worked on a copy: the loaded one has kept the cache that its load left.
	places := servers.NewLayout(spec.Scratch, spec.Plan)
	if _, err := os.Stat(filepath.Join(places.DataDir("loaded", "baseline"), "server", "cache", "rollup")); err != nil {
		t.Error(err)
	}
	spec.Plan.Run = "another run"
	if b := run(t, spec); b.Solo["baseline"].DrainS == nil {
		t.Error("data of another run were used")
	}
}

// A block that is interrupted ends without waiting for what it has started, leaves nothing, and has no record.
func TestInterrupted(t *testing.T) {
	defer func(ofTests func(string) error) { machine.EndAll = ofTests }(machine.EndAll)
	machine.EndAll = endAll
	for _, phase := range []string{"start", "load", "query"} {
		t.Run(phase, func(t *testing.T) {
			spec := fakes(t, "hang-query")
			if phase == "load" {
				first(t, spec, "load", "export FAKE_LOAD_S=86400")
			}
			spec.Plan.Watchdog.LoadStallS, spec.Plan.Watchdog.QueryStallS = 86400, 86400
			spec.Row.Order = []string{"baseline", "candidate"}
			ctx, cancel := context.WithCancel(t.Context())
			once(t, cancel, `"phase":"`+phase+`"`, filepath.Join(spec.Raw, "events.jsonl"))
			if b, err := Run(ctx, spec); b != nil || err == nil {
				t.Errorf("%v %v", b, err)
			}
			nothingLeft(t, spec)
		})
	}
}

// A server that the kernel has ended for want of memory is a failed block that says so.
func TestWantOfMemory(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TSDUEL_PROC", root)
	check(t, os.WriteFile(filepath.Join(root, "vmstat"), []byte("pgfault 9\noom_kill 3\n"), 0o644))
	f := newFrame(record.Spec{}, nil)
	if said := f.outOfMemory(); said != "" {
		t.Error(said)
	}
	f.oomKills = 2
	if said := f.outOfMemory(); !strings.Contains(said,
		"the kernel has ended a process for want of memory in this block") {
		t.Error(said)
	}
}

// seen is one start of a server: its environment, with its arguments (ARGV), and the inode and change time of its
// program (FILE).
type seen map[string]string

// watched makes every start print its arguments and environment.
func watched(t *testing.T, spec record.Spec) func() []seen {
	t.Helper()
	said := filepath.Join(spec.RunDir, "starts")
	first(t, spec, "start", fmt.Sprintf(
		`{ env -0; printf 'ARGV=%%s\0FILE=%%s\0\0' "$*" "$(stat -c '%%i %%z' "$DB_BINARY")"; } >>%q`, said))
	return func() (all []seen) {
		for one := range strings.SplitSeq(strings.TrimSuffix(string(must(os.ReadFile(said))), "\x00\x00"), "\x00\x00") {
			s := seen{}
			for pair := range strings.SplitSeq(one, "\x00") {
				name, value, _ := strings.Cut(pair, "=")
				s[name] = value
			}
			all = append(all, s)
		}
		return all
	}
}

// Each start has its own copy of the program, in a place that does not name the side. Arguments and
// environment are as long on both sides, and only listed variables are passed on.
func TestPlacesSayNothingOfTheSide(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	spec.Plan.Duel.Enabled, spec.Plan.Duel.Batches = true, true
	for i := range spec.Plan.Variants {
		spec.Plan.Variants[i].Components[0].Files = map[string]string{"x.yml": "a\n"}
		spec.Plan.Variants[i].Components[0].Env = map[string]string{"GOMAXPROCS": "3"}
	}
	starts := watched(t, spec)
	succeeded(t, run(t, spec))
	all := starts()
	if len(all) != 2*2+2+2 { // load and queries of each, then exchanged ingestion, then the duel
		t.Fatalf("%d starts", len(all))
	}
	places, files := servers.NewLayout(spec.Scratch, spec.Plan), map[string]bool{}
	sides := []string{"candidate", "candidate", "baseline", "baseline", "candidate", "baseline", "candidate", "baseline"}
	// As the block's order says; who is started first in a duel has the first place.
	for i, seat := range []string{"01", "01", "01", "01", "01", "02", "01", "02"} {
		s, number := all[i], filepath.Base(places.DataDir("loaded", sides[i]))
		own := filepath.Base(filepath.Dir(s["DB_DATA_DIR"])) == number &&
			s["PWD"] == filepath.Join(spec.Scratch, "files", number, "server") &&
			s["DB_BINARY"] == filepath.Join(spec.Scratch, "places", seat, "01", "program")
		told := s["GOGC"] != "" || s["GOMAXPROCS"] != "3" || s["LC_ALL"] != "C.UTF-8"
		for _, value := range s {
			told = told || strings.Contains(value, "candidate") || strings.Contains(value, "baseline")
		}
		if !own || told || files[s["FILE"]] {
			t.Errorf("start %d: %v", i, s)
		}
		files[s["FILE"]] = true
		if other := all[i^1]; i >= 4 { // the same start of the other side
			for name := range s {
				if len(s[name]) != len(other[name]) {
					t.Errorf("%s is %q and %q", name, s[name], other[name])
				}
			}
			if inode, _, _ := strings.Cut(s["FILE"], " "); strings.HasPrefix(other["FILE"], inode+" ") {
				t.Errorf("both run one file: %s", s["FILE"])
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(spec.Scratch, "places", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
