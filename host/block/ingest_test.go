package block

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsduel/host/record"
	"tsduel/host/servers"
)

// loads are duels that load in turn, in batches of 20 of the 48 lines.
func loads(t *testing.T, modes ...string) *frame {
	t.Helper()
	f := duels(t, modes...)
	f.Plan.Duel.Batches, f.Plan.Workload.BatchSize = true, 20
	return f
}

func TestIngestionIsExchangedOnDirectoriesOfItsOwn(t *testing.T) {
	t.Parallel()
	f := loads(t)
	// As a block that was killed leaves it: what would be stored twice.
	left := f.layout.DataDir("exchanged", "candidate")
	check(t, os.MkdirAll(left, 0o755), os.WriteFile(filepath.Join(left, "server"), nil, 0o644))
	b := fight(t, f)
	succeeded(t, b)
	if load := b.Duel.Load[0]; len(b.Duel.Load) != 1 || load.Exchanges != 3 || load.Lines != 48 ||
		load.CPUNS["baseline"] <= 0 || load.DrainedCPUNS["baseline"] <= load.CPUNS["baseline"] ||
		load.RSSPeakBytes["candidate"] == 0 || len(b.Duel.Types) != 1 {
		t.Fatalf("%+v", b.Duel)
	}
	if lines := rows(t, f, "load.csv.gz"); lines[0] != "sitting,k,order,first,lines,baseline_ns,candidate_ns" ||
		!strings.HasPrefix(lines[3], "0,2,10,false,8,") {
		t.Errorf("%q", lines)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(left), "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestWorkThatIsPutOffCountsAsIngestion(t *testing.T) {
	defer func(usual time.Duration) { putOff = usual }(putOff)
	putOff = 2 * time.Second // the fake begins after one
	f := loads(t, "", "later")
	f.Plan.Workload.BatchSize = 48
	b := fight(t, f)
	succeeded(t, b)
	load := b.Duel.Load[0]
	if early, late := load.CPUNS["candidate"]-load.CPUNS["baseline"],
		load.DrainedCPUNS["candidate"]-load.DrainedCPUNS["baseline"]; early > 15e7 || late < 2e8 {
		t.Errorf("%v more until the last batch, %v until all is done", time.Duration(early), time.Duration(late))
	}
}

func TestEverySittingHasItsShareAndItsOrders(t *testing.T) {
	t.Parallel()
	f := loads(t)
	f.Plan.Duel.Sittings, f.Plan.Duel.LoadSittings, f.Plan.Design.Load = 4, 2, record.InTurn
	f.Row.QueryTypes, f.Plan.Duel.Counters = []string{types[1], types[0]}, "duel"
	f.Calibration.Counts = map[string]int{types[0]: 40, types[1]: 32}
	one, other := []string{"baseline", "candidate"}, []string{"candidate", "baseline"}
	f.Row.Coins = record.Coins{Order: one, Start: other, Read: one, Ask: other}
	b := fight(t, f)
	succeeded(t, b)
	if b.Duel.Sittings != 4 || len(b.Duel.Types) != 8 || len(b.Duel.Load) != 2 {
		t.Fatalf("%+v", b.Duel)
	}
	last := b.Duel.Types[7]
	if last.QueryType != types[0] || last.Sitting != 3 || last.Exchanges != 10 || last.FirstQuery != 80+30 {
		t.Errorf("%+v", last)
	}
	var want []string // block 2 of 32 and of 40, a quarter in each sitting
	for sitting := range 4 {
		want = slices.Concat(want, numbers("u", 64+8*sitting, 8), numbers("t", 80+10*sitting, 10))
	}
	if got := asked(t, f, "baseline"); !slices.Equal(got, want) {
		t.Errorf("asked %v", got)
	}
	lines, first := rows(t, f, "exchanges.csv.gz"), map[string]string{}
	for _, line := range lines[1:] {
		column := strings.Split(line, ",")
		if key := column[0][:1] + column[1]; first[key] == "" {
			first[key] = column[3]
		}
	}
	if len(lines) != 73 || first["c0"] != "10" || first["c1"] != "01" || first["s0"] != "01" || first["s3"] != "10" ||
		!strings.HasPrefix(lines[72], types[0]+",3,39,") {
		t.Errorf("%d lines, asked first: %v, %q", len(lines), first, lines[72])
	}
	var started []string
	for _, c := range b.Checks {
		if c.Check == "listens_on_loopback" {
			started = append(started, c.Variant[:1])
		}
	}
	if got := strings.Join(started, ""); got != "cbbc"+"cbbcbccb" { // two loads, then four sittings
		t.Error(got)
	}
	var read []string
	for _, c := range b.Checks {
		if c.Check == "exchanges_empty" {
			read = append(read, c.Variant[:1])
		}
	}
	if got := strings.Join(read, ""); got != "bcbc"+"cbcb"+"bcbc"+"cbcb" { // two types in each sitting
		t.Error(got)
	}
	if n := b.Duel.Counters["candidate"]["rows_read"]; n < 72 {
		t.Errorf("%v rows", n)
	}
	if solo := b.Solo["candidate"]; solo.Sizes["disk_bytes"] == 0 || solo.CPUNS != nil {
		t.Errorf("%+v", b.Solo)
	}
	for _, v := range f.variants { // the queries were asked of what the last load has left
		if _, err := os.Stat(filepath.Join(v.Data, "server")); err != nil {
			t.Error(err)
		}
	}
}

// With design.reload once, later blocks ask copies of what the first one has loaded in turn.
func TestOneLoadInTurnIsForAllBlocks(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	spec.Plan.Duel.Enabled, spec.Plan.Duel.Batches, spec.Plan.Workload.BatchSize = true, true, 20
	spec.Plan.Queries.Solo, spec.Plan.Design.Load, spec.Plan.Design.Reload = false, record.InTurn, "once"
	first, later := run(t, spec), run(t, spec)
	succeeded(t, first)
	succeeded(t, later)
	if len(first.Duel.Load) != 1 || len(later.Duel.Load) != 0 || len(later.Duel.Types) != len(first.Duel.Types) {
		t.Errorf("%+v, then %+v", first.Duel.Load, later.Duel)
	}
	places := servers.NewLayout(spec.Scratch, spec.Plan)
	for _, of := range []string{"loaded", "copies"} {
		if _, err := os.Stat(filepath.Join(places.DataDir(of, "candidate"), "server")); err != nil {
			t.Error(err)
		}
	}
}

func TestIngestionEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	f := loads(t)
	f.Plan.Duel.LoadS, f.Plan.Duel.MinExchanges = 1e-6, 1
	b := fight(t, f)
	succeeded(t, b)
	if len(b.Duel.Load) != 1 || b.Duel.Load[0].Exchanges != 1 || b.Duel.Load[0].Lines != 20 {
		t.Fatalf("%+v", b.Duel)
	}
	exchanged := slices.DeleteFunc(slices.Clone(b.Checks),
		func(c record.Check) bool { return c.Check != "lines_exchanged" })
	if len(exchanged) != 2 || exchanged[0].Expected != 20 || exchanged[0].Actual != 20 || !exchanged[0].OK {
		t.Errorf("%+v", exchanged)
	}
}
