package workload

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"tsduel/host/record"
)

const step = int64(1e10)

// changed is what becomes of 300 steps of two series, written in pieces that end anywhere.
func changed(t *testing.T, plan record.WorkloadPlan) []string {
	t.Helper()
	var text, out bytes.Buffer
	for i := range int64(300) {
		for host := range 2 {
			fmt.Fprintf(&text, "cpu,hostname=host_%d,rack=1 usage_user=%di,usage_system=7i %d\n", host, 50+i%3, 1_749_513_600_000_000_000+i*step)
		}
	}
	to, flush := ofKind(&plan, 0, &out)
	for rest := text.Bytes(); len(rest) > 0; {
		n := min(len(rest), 101)
		if _, err := to.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := flush(); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestRegularDataIsTSBSsOwn(t *testing.T) {
	if lines := changed(t, record.WorkloadPlan{Seed: 1, IntervalS: 10}); lines[2] != "cpu,hostname=host_0,rack=1 usage_user=51i,usage_system=7i 1749513610000000000" {
		t.Error(lines[2])
	}
}

func TestIrregularLinesKeepTheirOrderAndTheirWindow(t *testing.T) {
	plan := record.WorkloadPlan{DataKind: "irregular", Seed: 1, IntervalS: 10}
	lines, moved := changed(t, plan), map[int64]bool{}
	for host := range 2 {
		last := int64(0)
		for i := range 300 {
			front, stamp, _ := strings.Cut(lines[2*i+host], "i 17")
			at, err := strconv.ParseInt("17"+stamp, 10, 64)
			by := at - 1_749_513_600_000_000_000 - int64(i)*step
			if err != nil || at <= last || by < 0 || by >= step || by%1e6 != 0 || !strings.Contains(front, fmt.Sprintf("host_%d,rack=1 usage_user=%di", host, 50+i%3)) {
				t.Fatalf("line %d of host %d: %s", i, host, lines[2*i+host])
			}
			last, moved[by] = at, true
		}
	}
	if len(moved) < 500 {
		t.Errorf("600 lines are moved by %d different times", len(moved))
	}
	if again := changed(t, plan); strings.Join(again, "\n") != strings.Join(lines, "\n") {
		t.Error("the same seed gives other lines")
	}
}

func TestValuesOfHighVarianceSayNothingOfTheNext(t *testing.T) {
	lines, below, seen := changed(t, record.WorkloadPlan{DataKind: "high-variance", Seed: 1, IntervalS: 10}), 0, map[string]bool{}
	for i, line := range lines {
		parts := strings.Split(line, " ")
		if len(parts) != 3 || parts[2] != strconv.FormatInt(1_749_513_600_000_000_000+int64(i/2)*step, 10) {
			t.Fatal(line)
		}
		for j, field := range strings.Split(parts[1], ",") {
			name, text, _ := strings.Cut(field, "=")
			value, err := strconv.ParseFloat(text, 64)
			if name != []string{"usage_user", "usage_system"}[j] || err != nil || value < 1e-3 || value > 1e3 {
				t.Fatal(line)
			}
			seen[text] = true
			if value < 1 {
				below++
			}
		}
	}
	if len(seen) < 1150 || below < 540 || below > 660 {
		t.Errorf("%d values of 1200 are different, %d are below 1", len(seen), below)
	}
}

func TestWhatIsNoLineIsLeftAlone(t *testing.T) {
	var out bytes.Buffer
	to, flush := ofKind(&record.WorkloadPlan{DataKind: "high-variance", IntervalS: 1}, 0, &out)
	said := "error: no such use case\nand an end with no"
	_, _ = to.Write([]byte(said))
	if err := flush(); err != nil || out.String() != said {
		t.Error(out.String(), err)
	}
}
