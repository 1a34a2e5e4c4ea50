package block

import (
	"slices"
	"strings"
	"testing"

	"tsduel/host/record"
)

// A counter that decides when a database is quiet, and that one of two equal databases lacks, is unknown and no zero:
// the check fails by name, on either side, alone and in the duel. Versions may lack an optional one: a note says so.
func TestACounterThatIsMissing(t *testing.T) {
	const quiet, still, parts = "vm_active_merges", "vm_merges_total", "vm_parts"
	for _, c := range []struct {
		who, lacks, part, phase string
		change                  func(*record.Plan)
	}{
		{"candidate", quiet, record.Solo, "settle", nil},
		{"baseline", quiet, record.Solo, "settle", nil},
		{"candidate", still, record.Solo, "settle", nil},
		{"candidate", quiet, "", "", func(p *record.Plan) {
			counter := p.Targets["fake"].Counters["active_merges"]
			counter.Optional = true
			p.Targets["fake"].Counters["active_merges"] = counter
		}},
		// A component that a variant does not have has no counters.
		{"candidate", "vm_pending_rows", "", "", func(p *record.Plan) {
			p.Targets["fake"].Counters["active_merges"] = record.Counter{Name: "vm_pending_rows", Role: "vmagent"}
		}},
	} {
		t.Run(c.who+" "+c.lacks+" "+c.phase, func(t *testing.T) {
			t.Parallel()
			spec := fakes(t)
			spec.Plan.Queries.Solo = false
			for _, v := range spec.Plan.Variants {
				if v.Components[0].Env["FAKE_BUSY_S"] = "1"; v.Name == c.who {
					v.Components[0].Env["FAKE_LACKS"] = c.lacks
				}
			}
			if c.change != nil {
				c.change(spec.Plan)
			}
			b := run(t, spec)
			missing := func(check record.Check) bool { return check.Check == "quiet_known" && !check.OK }
			if c.phase == "" {
				succeeded(t, b)
				note := strings.Contains(events(spec), "when it is quiet was decided without "+quiet)
				if slices.ContainsFunc(b.Checks, missing) || note != (c.lacks == quiet) {
					t.Errorf("note %t, %+v", note, b.Checks)
				}
				return
			}
			if f := b.Failures; len(f) != 1 || f[0].Variant != c.who || f[0].Phase != c.phase || f[0].Part != c.part ||
				f[0].Message != "whether it is quiet could not be checked: "+c.lacks+" is not in its /metrics" {
				t.Errorf("%+v", f)
			}
			if !slices.ContainsFunc(b.Checks, missing) {
				t.Errorf("%+v", b.Checks)
			}
		})
	}
	t.Run("in the duel", func(t *testing.T) {
		t.Parallel()
		f := duels(t)
		f.Plan.Variants[1].Components[0].Env["FAKE_LACKS"] = quiet
		failed(t, fight(t, f), "duel", "start", "^whether it is quiet could not be checked: vm_active_merges is not in ")
	})
	t.Run("parts", func(t *testing.T) {
		t.Parallel()
		f := duels(t)
		target := f.Plan.Targets["fake"]
		target.Counters["parts"], target.BeforeMerge = record.Counter{Name: parts}, []string{"active_merges"}
		f.Plan.Targets["fake"], f.Plan.Settle.Mode = target, "merged"
		for _, v := range f.variants {
			v.Module = target
		}
		f.Plan.Variants[1].Components[0].Env["FAKE_LACKS"] = parts
		const want = "unequal starts: in how many parts the data of candidate lie is not known: " +
			"vm_parts is not in its /metrics"
		if b := fight(t, f); b.Void != want {
			t.Errorf("%q %+v", b.Void, b.Failures)
		}
	})
}

// A counter grows from 0 if it is new. What was not read, before or after, says nothing of it.
func TestGrowthOfACounter(t *testing.T) {
	counter := record.Counter{Name: "rows"}
	for _, c := range []struct {
		before, after []byte
		grown         float64
		missing       string
	}{
		{[]byte("rows 3\n"), []byte("rows 5\n"), 2, ""},
		{[]byte("other 1\n"), []byte("rows 5\n"), 5, ""},
		{[]byte{}, []byte("rows 5\n"), 5, ""},
		{[]byte("rows 3\n"), []byte("other 1\n"), 0, "x could not be checked: rows is not in /metrics"},
		{nil, []byte("rows 5\n"), 0, "x could not be checked: its counters could not be read before"},
		{[]byte("rows 3\n"), nil, 0, "x could not be checked: its counters could not be read"},
	} {
		grown, missing, err := moved("x", counter, c.before, c.after)
		if grown != c.grown || missing != c.missing || err != nil {
			t.Errorf("from %q to %q: %v %q %v", c.before, c.after, grown, missing, err)
		}
	}
	target := record.Target{Counters: map[string]record.Counter{"x": counter}}
	if all := grown(target, nil, []byte("rows 5\n")); len(all) > 0 {
		t.Error(all)
	}
}
