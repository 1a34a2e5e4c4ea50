package block

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tsduel/host/record"
)

// seen is one start of a server: its environment, arguments, and the inode and change time of its program.
type seen struct {
	env        map[string]string
	argv, file string
}

// watched makes every start print its arguments and environment.
func watched(t *testing.T, spec record.Spec) func() []seen {
	t.Helper()
	said := filepath.Join(spec.RunDir, "starts")
	start := filepath.Join(spec.RunDir, "project", "scripts", "targets", "fake", "start")
	was := strings.TrimPrefix(string(must(os.ReadFile(start))), "#!/usr/bin/env bash\n")
	check(t, os.WriteFile(start, fmt.Appendf(nil,
		"#!/usr/bin/env bash\n{ env -0; printf 'ARGV=%%s\\0FILE=%%s\\0\\0' \"$*\" \"$(stat -c '%%i %%z' "+
			"\"$DB_BINARY\")\"; } >>%q\n%s", said, was), 0o755))
	return func() (all []seen) {
		for one := range strings.SplitSeq(strings.TrimSuffix(string(must(os.ReadFile(said))), "\x00\x00"), "\x00\x00") {
			s := seen{env: map[string]string{}}
			for pair := range strings.SplitSeq(one, "\x00") {
				name, value, _ := strings.Cut(pair, "=")
				s.env[name] = value
			}
			s.argv, s.file = s.env["ARGV"], s.env["FILE"]
			all = append(all, s)
		}
		return all
	}
}

// Each start has its own copy of the program, in a place that does not name the side. Arguments and
// environment are as long on both sides, and only listed variables are passed on.
func TestPlacesSayNothingOfTheSide(t *testing.T) {
	t.Parallel()
	spec, _ := fakes(t)
	spec.Plan.Duel = shortDuel
	spec.Plan.Duel.Load = true
	spec.Workload.Data[0].Lines = lines48
	target := spec.Plan.Targets["fake"]
	target.WritePath = "/write"
	spec.Plan.Targets["fake"] = target
	for i := range spec.Plan.Variants {
		spec.Plan.Variants[i].Components[0].Files = map[string]string{"x.yml": "a\n"}
		spec.Plan.Variants[i].Components[0].Env = map[string]string{"GOMAXPROCS": "3"}
	}
	starts := watched(t, spec)
	b := run(t, spec)
	succeeded(t, b)
	all := starts()
	if len(all) != 2*2+2+2 { // load and queries of each, then exchanged ingestion, then the duel
		t.Fatalf("%d starts", len(all))
	}
	places := layout{plan: spec.Plan}
	want := map[string]string{}
	for _, v := range spec.Plan.Variants {
		want[places.number(v.Name)] = v.Name
	}
	files, sides := map[string]bool{}, []string{}
	place := regexp.MustCompile(`^` + regexp.QuoteMeta(spec.Scratch) + `/places/0[12]/01/program$`)
	for i, s := range all {
		given := s.argv + " " + strings.Join(slices.Collect(maps.Values(s.env)), " ")
		if !place.MatchString(s.env["DB_BINARY"]) || files[s.file] || strings.Contains(given, "candidate") ||
			strings.Contains(given, "baseline") {
			t.Errorf("start %d: %+v", i, s)
		}
		files[s.file] = true
		number := filepath.Base(filepath.Dir(s.env["DB_DATA_DIR"]))
		sides = append(sides, want[number])
		if s.env["PWD"] != filepath.Join(spec.Scratch, "files", number, "server") || s.env["GOGC"] != "" ||
			s.env["GOMAXPROCS"] != "3" || s.env["LC_ALL"] != "C.UTF-8" {
			t.Errorf("start %d: %v", i, s.env)
		}
		if other := all[i^1]; i >= 4 { // the same start of the other side
			for name := range s.env {
				if len(s.env[name]) != len(other.env[name]) {
					t.Errorf("%s is %q and %q", name, s.env[name], other.env[name])
				}
			}
			if inode, _, _ := strings.Cut(s.file, " "); strings.HasPrefix(other.file, inode+" ") {
				t.Errorf("both run one file: %s", s.file)
			}
		}
	}
	// As the block's order says; who is started first in a duel has the first place.
	if got := strings.Join(sides, " "); got != "candidate candidate baseline baseline candidate baseline candidate "+
		"baseline" {
		t.Error(got)
	}
	for i, seat := range []string{"01", "01", "01", "01", "01", "02", "01", "02"} {
		if !strings.Contains(all[i].env["DB_BINARY"], "/places/"+seat+"/") {
			t.Errorf("start %d: %s", i, all[i].env["DB_BINARY"])
		}
	}
	if left, _ := filepath.Glob(filepath.Join(spec.Scratch, "places", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// The record has how every server lies in memory.
func TestPlacesOfADuelAreKept(t *testing.T) {
	t.Parallel()
	f := toys(t, "", "")
	f.Row.Order = []string{"candidate", "baseline"}
	b := fight(t, f)
	if b.Status != record.OK || len(b.Duel.Places) != 2 {
		t.Fatalf("%+v %+v", b.Failures, b.Duel.Places)
	}
	for i, name := range []string{"baseline", "candidate"} {
		p := b.Duel.Places[i]
		if p.Variant != name || p.Role != "server" || p.Sitting != 0 || p.Loading || p.Frames > p.Pages ||
			os.Getuid() == 0 && p.Pages != -1 && p.Pages < 100 || p.HugeBytes < 0 {
			t.Errorf("%+v", p)
		}
	}
}

// The numbers of the variants are drawn for a run, and the same in all its blocks.
func TestPlacesOfDataAreDrawnForARun(t *testing.T) {
	drawn := map[string]bool{}
	for seed := range int64(20) {
		l := layout{plan: &record.Plan{Design: record.Design{Seed: seed},
			Variants: []record.Variant{{Name: "baseline"}, {Name: "candidate"}}}}
		base, other := l.number("baseline"), l.number("candidate")
		if base == other || base != l.number("baseline") {
			t.Error(base, other)
		}
		drawn[base+other] = true
	}
	if !drawn["0102"] || !drawn["0201"] {
		t.Error(drawn)
	}
}

// If the counter of kept answers is missing, the starts are not equal.
func TestEqualStartsAreNotTakenForGranted(t *testing.T) {
	t.Parallel()
	f := toys(t, "", "")
	target := &f.variants["candidate"].target
	target.Counters = maps.Clone(target.Counters)
	target.Counters["answers_kept"] = record.Counter{Name: "vm_renamed"}
	b := fight(t, f)
	if b.Void != "unequal starts: with how many cached answers in its memory candidate began is not known: vm_renamed "+
		"is not in its /metrics" || len(b.Duel.Types) != 0 {
		t.Errorf("%q %+v", b.Void, b.Duel)
	}
	failed := slices.DeleteFunc(slices.Clone(b.Checks), func(c record.Check) bool {
		return c.OK || c.Check != "equal_start"
	})
	if len(failed) == 0 || failed[0].Variant != "candidate" || failed[0].Actual != -1 {
		t.Errorf("%+v", b.Checks)
	}
}
