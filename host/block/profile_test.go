package block

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"tsduel/host/record"
)

// pprofs is a directory of a fake database's answers below /debug/pprof.
func pprofs(t *testing.T, files map[string]int64) string {
	t.Helper()
	dir := t.TempDir()
	for name, value := range files {
		types := map[string][]string{"profile": {"samples", "cpu"}, "heap": {"alloc_space", "inuse_space"},
			"block": {"contentions", "delay"}}
		p := &profile.Profile{Period: 1, PeriodType: &profile.ValueType{Type: "x", Unit: "x"},
			Function: []*profile.Function{{ID: 1, Name: "pkg.f"}}}
		p.Location = []*profile.Location{{ID: 1, Line: []profile.Line{{Function: p.Function[0]}}}}
		for _, of := range types[strings.SplitN(name, ".", 2)[0]] {
			p.SampleType = append(p.SampleType, &profile.ValueType{Type: of, Unit: "x"})
		}
		if value > 0 {
			p.Sample = []*profile.Sample{{Location: p.Location, Value: []int64{value, value}}}
		}
		var text bytes.Buffer
		check(t, p.Write(&text), os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o644))
	}
	return dir
}

// profiled profiles two fake databases with these values of FAKE_PPROF. It returns the profiles by name.
func profiled(t *testing.T, baseline, candidate string) (record.Spec, map[string]record.Profile) {
	t.Helper()
	spec := fakes(t)
	target := spec.Plan.Targets["fake"]
	target.Pprof = "/debug/pprof"
	spec.Plan.Targets["fake"] = target
	spec.Plan.Profile, spec.Plan.Queries.Solo = []string{"cpu", "heap", "block"}, false
	spec.Plan.Duel.Enabled = true
	spec.Plan.Queries.Types = []record.QueryType{{Name: types[0]}, {Name: types[1]}}
	spec.Calibration = &record.Calibration{Counts: map[string]int{types[0]: 40, types[1]: 160}}
	for i, where := range []string{baseline, candidate} {
		spec.Plan.Variants[i].Components[0].Env["FAKE_PPROF"] = where
	}
	check(t, Profile(t.Context(), spec))
	nothingLeft(t, spec)
	var found record.Profiles
	check(t, record.ReadJSON(filepath.Join(spec.RunDir, "raw", "profiles", "profiles.json"), &found))
	by := map[string]record.Profile{}
	for _, one := range found.Profiles {
		by[strings.Join([]string{one.Variant, one.Work, one.Kind}, " ")] = one
	}
	return spec, by
}

// One more block is profiled, with as many operations on every side. A measured block never is.
func TestProfilesAreOfEqualWorkAndOfNoMeasuredBlock(t *testing.T) {
	t.Parallel()
	files := map[string]int64{"profile.1": 5, "heap.1": 100, "heap.2": 130, "block.1": 7, "block.2": 9}
	spec, found := profiled(t, pprofs(t, files), pprofs(t, files))
	for name, one := range found {
		want := int64(lines48 * 10)
		if one.Work == "queries" {
			want = 400 + 320 // of the first type's 40 as often as the file of 400 reaches, of the other's 160
		}
		path := filepath.Join(spec.RunDir, "raw", "profiles", one.File)
		for _, suffix := range []string{".pprof", ".stacks.json.gz"} {
			if _, err := os.Stat(path + suffix); err != nil {
				t.Error(err)
			}
		}
		if one.Operations != want || one.Why != "" || one.Seconds <= 0 || one.Role != "server" {
			t.Errorf("%s: %+v", name, one)
		}
	}
	if len(found) != 2*2*3 {
		t.Errorf("%d profiles", len(found))
	}
	spec.Dir = filepath.Join(spec.RunDir, "raw", "profiles")
	if read := len(logged(spec, "baseline/server.log", "pprof")); read < 5 {
		t.Errorf("%d requests", read)
	}
	spec.Dir = filepath.Join(spec.RunDir, "raw", "001.partial")
	run(t, spec)
	if read := logged(spec, "baseline/server.log", "pprof"); read != nil {
		t.Errorf("a measured block was read: %v", read)
	}
}

// A sentence says why a profile is missing, and the other side's profile is kept.
func TestProfilesThatCannotBeHad(t *testing.T) {
	t.Parallel()
	_, found := profiled(t, "401", pprofs(t, map[string]int64{"profile.1": 5, "heap.1": 0, "block.1": 0}))
	for name, sentence := range map[string]string{
		"baseline load cpu":       "HTTP status 401: no profiles for you",
		"baseline queries heap":   "HTTP status 401: no profiles for you",
		"candidate load block":    "this server does not record where it waits",
		"candidate queries heap":  "allocated next to nothing",
		"candidate queries cpu":   "",
		"candidate queries block": "runtime.SetBlockProfileRate",
	} {
		if one := found[name]; !strings.Contains(one.Why, sentence) || (one.Why == "") != (sentence == "") ||
			(one.File == "") == (sentence == "") {
			t.Errorf("%s: %+v", name, one)
		}
	}
}
