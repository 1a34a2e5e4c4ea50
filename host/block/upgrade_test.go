package block

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsduel/host/record"
)

// upgrading is a block in which all variants start on what the baseline has loaded.
func upgrading(t *testing.T, modes ...string) record.Spec {
	t.Helper()
	spec := fakes(t, modes...)
	spec.Plan.Design.StartFrom, spec.Plan.Queries.Solo = "baseline", false
	spec.Plan.Duel.Enabled = true
	target := spec.Plan.Targets["fake"]
	target.Immutable = "data/small/[a-z]+"
	spec.Plan.Targets["fake"] = target
	spec.Workload.Continued = spec.Workload.Data // the fake counts samples alone
	for _, q := range spec.Workload.Queries {
		for _, window := range []string{"@half", "@new"} {
			q.Type += window
			spec.Workload.Queries = append(spec.Workload.Queries, q)
			q.Type = strings.TrimSuffix(q.Type, window)
		}
	}
	return spec
}

// All variants start on copies, and both duels and the downgrade are recorded.
func TestAnUpgradeStartsOnCopies(t *testing.T) {
	t.Parallel()
	spec := upgrading(t)
	b := run(t, spec)
	if b.Status != record.OK || b.Void != "" || b.Duel != nil || b.Solo["candidate"].CPUNS != nil {
		t.Fatalf("%+v %q %+v", b.Failures, b.Void, b.Solo)
	}
	var phases []string
	for _, p := range b.Phases {
		phases = append(phases, strings.TrimSpace(p.Part+" "+p.Phase+" "+p.QueryType+" "+p.Variant))
	}
	q := types[0]
	want := []string{"solo canary  baseline", "solo start  baseline", "solo load  baseline", "solo settle  baseline",
		"solo stop  baseline",
		"upgrade copy  candidate", "upgrade copy  baseline", "upgrade start  candidate", "upgrade start  baseline",
		"upgrade before-start", "upgrade before-idle before", "upgrade before " + q, "upgrade before-idle after",
		"upgrade before-stop",
		"upgrade ingest  candidate", "upgrade settle  candidate", "upgrade ingest  baseline", "upgrade settle  baseline",
		"upgrade after-start", "upgrade after-idle before", "upgrade after " + q + "@new", "upgrade after " + q + "@half",
		"upgrade after-idle after", "upgrade after-stop",
		"upgrade downgrade  candidate"}
	if told := Phases(spec.Plan, spec.Row, nil); !slices.Equal(phases, want) || told != len(phases) {
		t.Errorf("%q, and %d were to be expected", phases, told)
	}
	if count := strings.Count(strings.Join(calls(spec), " "), "load"); count != 3 {
		t.Errorf("%d loads", count)
	}
	u := b.Upgrade
	for _, name := range []string{"baseline", "candidate"} {
		if c, s, i := u.Copies[name], u.Start[name], u.Ingest[name]; c.Linked != 1 || c.Copied == 0 || s.StartS <= 0 ||
			s.FirstAnswerS < s.StartS || s.QuietS <= 0 || s.CPUNS <= 0 ||
			s.Refused != "" || i.CPUNS["drained"] <= 0 || i.DrainS == nil || u.Sizes[name]["disk_bytes"] == 0 {
			t.Errorf("%s: %+v %+v %+v %+v", name, c, s, i, u.Sizes)
		}
		for _, file := range []string{"upgrade/load.csv", "upgrade/metrics.prom.gz", "upgrade/server.log",
			"upgrade/before-server.log", "upgrade/after-server.log"} {
			if _, err := os.Stat(filepath.Join(spec.Dir, name, file)); err != nil {
				t.Error(err)
			}
		}
	}
	if len(u.Before.Types) != 1 || u.Before.Types[0].Compared < 8 || len(u.After.Types) != 2 ||
		u.After.Types[0].CPUNS["candidate"] <= 0 {
		t.Errorf("%+v %+v", u.Before, u.After)
	}
	d := u.Downgrade["candidate"]
	if !d.Starts || d.StartS <= 0 || len(d.Answers) != 3 || len(u.Downgrade) != 1 {
		t.Fatalf("%+v", u.Downgrade)
	}
	for _, a := range d.Answers {
		if a.Asked != downgradeAsked || a.Same != a.Asked || a.Empty != 0 || a.What != "" {
			t.Errorf("%+v", a)
		}
	}
}

// If a candidate refuses the directory, the block does not fail: that is a result with the candidate's last
// words.
func TestACandidateThatRefusesTheDirectory(t *testing.T) {
	t.Parallel()
	spec := upgrading(t, "", "refuse", "")
	b := run(t, spec)
	said := b.Upgrade.Start["candidate"].Refused
	if b.Status != record.OK || !strings.Contains(said,
		") died: panic: FATAL: cannot open the index: unknown version 7 (its log: ") {
		t.Errorf("%+v %q", b.Failures, said)
	}
	if len(b.Upgrade.After.Types) != 2 || b.Upgrade.After.Types[0].CPUNS["third"] <= 0 ||
		b.Upgrade.After.Types[0].CPUNS["candidate"] != 0 {
		t.Errorf("%+v", b.Upgrade.After)
	}
	if d := b.Upgrade.Downgrade; !d["candidate"].Starts || len(d["candidate"].Answers) != 1 ||
		len(d["third"].Answers) != 3 {
		t.Errorf("%+v", d)
	}
	failed := []string{}
	for _, c := range b.Checks {
		if !c.OK {
			failed = append(failed, c.Variant+" "+c.Check)
		}
	}
	if !slices.Equal(failed, []string{"candidate upgrade_start", "candidate block_finished"}) {
		t.Errorf("%q", failed)
	}
}

func TestNobodyIsLeftToCompareWith(t *testing.T) {
	t.Parallel()
	spec := upgrading(t, "", "refuse")
	b := run(t, spec)
	if succeeded(t, b); b.Upgrade.Before != nil || b.Upgrade.Start["baseline"].QuietS <= 0 ||
		!b.Upgrade.Downgrade["candidate"].Starts {
		t.Errorf("%+v %+v", b.Failures, b.Upgrade)
	}
}

// Any outcome of a downgrade is a result.
func TestTheWayBack(t *testing.T) {
	for mode, right := range map[string]func(record.Downgrade) bool{
		"leave-newer": func(d record.Downgrade) bool {
			return !d.Starts && strings.Contains(d.Said, "the index is of a newer version")
		},
		"leave-other": func(d record.Downgrade) bool {
			return d.Starts && d.Answers[0].Same == 0 && strings.Contains(d.Answers[0].What, "the values are")
		},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			spec := upgrading(t, "", mode)
			// Of a fleet blocks are counted over all hosts, and queries are those of this one's turn.
			spec.Row.Block, spec.Calibration = 100_000, &record.Calibration{Counts: map[string]int{types[0]: 8,
				types[0] + "@half": 8, types[0] + "@new": 8}}
			b := run(t, spec)
			if succeeded(t, b); !right(b.Upgrade.Downgrade["candidate"]) {
				t.Errorf("%+v", b.Upgrade.Downgrade)
			}
		})
	}
}

// A changed file that the module calls immutable ends the run.
func TestASharedFileThatIsWrittenTo(t *testing.T) {
	t.Parallel()
	spec := upgrading(t, "", "rewrite")
	spec.Row.Order = []string{"candidate", "baseline"}
	b, err := Run(t.Context(), spec)
	if b != nil || err == nil || !strings.Contains(err.Error(),
		"data/small/part was changed through a copy that shared it by a hard link: `immutable` of tsduel/targets/fake.py "+
			"must not name it") {
		t.Errorf("%+v %v", b, err)
	}
}
