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

// write writes a text in pieces of some bytes, and returns what comes out.
func write(t *testing.T, text string, bytesEach int, changes []change) string {
	t.Helper()
	var out bytes.Buffer
	w := &lineWriter{to: &out, changes: changes}
	for len(text) > 0 {
		n := min(len(text), bytesEach)
		_, err := w.Write([]byte(text[:n]))
		must(t, err)
		text = text[n:]
	}
	must(t, w.flush())
	return out.String()
}

// changed returns 300 steps of two series, as lines of this kind of data.
func changed(t *testing.T, kind string) []string {
	t.Helper()
	var text strings.Builder
	for i := range int64(300) {
		for host := range 2 {
			fmt.Fprintf(&text, "cpu,hostname=host_%d,rack=1 usage_user=%di,usage_system=7i %d\n",
				host, 50+i%3, 1_749_513_600_000_000_000+i*step)
		}
	}
	plan := &record.Plan{Workload: &record.WorkloadPlan{DataKind: kind, Seed: 1, IntervalS: 10}}
	return strings.Split(strings.TrimSuffix(write(t, text.String(), 101, changesOf(&job{plan: plan})), "\n"), "\n")
}

func TestRegularDataIsTSBSsOwn(t *testing.T) {
	const third = "cpu,hostname=host_0,rack=1 usage_user=51i,usage_system=7i 1749513610000000000"
	if lines := changed(t, ""); lines[2] != third {
		t.Error(lines[2])
	}
}

func TestIrregularLinesKeepTheirOrderAndTheirWindow(t *testing.T) {
	lines, moved := changed(t, "irregular"), map[int64]bool{}
	for host := range 2 {
		last := int64(0)
		for i := range 300 {
			front, stamp, _ := strings.Cut(lines[2*i+host], "i 17")
			at, err := strconv.ParseInt("17"+stamp, 10, 64)
			by := at - 1_749_513_600_000_000_000 - int64(i)*step
			kept := strings.Contains(front, fmt.Sprintf("host_%d,rack=1 usage_user=%di", host, 50+i%3))
			if err != nil || at <= last || by < 0 || by >= step || by%1e6 != 0 || !kept {
				t.Fatalf("line %d of host %d: %s", i, host, lines[2*i+host])
			}
			last, moved[by] = at, true
		}
	}
	if len(moved) < 500 {
		t.Errorf("600 lines are moved by %d different times", len(moved))
	}
	if again := changed(t, "irregular"); strings.Join(again, "\n") != strings.Join(lines, "\n") {
		t.Error("the same seed gives other lines")
	}
}

func TestValuesOfHighVarianceSayNothingOfTheNext(t *testing.T) {
	lines, below, seen := changed(t, "high-variance"), 0, map[string]bool{}
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

func TestSeriesComeAndGoByTheClockOfTheData(t *testing.T) {
	const hosts, steps, start = 200, 6, 1749600000
	var text strings.Builder
	for step := range steps {
		for host := range hosts {
			fmt.Fprintf(&text, "cpu,hostname=host_%d,region=eu usage_user=1i,usage_system=2i %d000000000\n", host, start+step*60)
		}
	}
	changes := []change{churned(record.Churn{Pct: 10, EveryS: 120}, start*1e9)}
	renamed := write(t, text.String(), 1<<20, changes)
	if renamed != write(t, text.String(), 7, changes) {
		t.Error("the pieces that lines come in change them")
	}
	var names []map[string]bool // by step
	originals := strings.Split(text.String(), "\n")
	for k, line := range strings.Split(strings.TrimSpace(renamed), "\n") {
		if k%hosts == 0 {
			names = append(names, map[string]bool{})
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(line, "cpu,hostname="), ",")
		names[k/hosts][host] = true
		if strings.Replace(line, host, fmt.Sprintf("host_%d", k%hosts), 1) != originals[k] {
			t.Fatalf("%q was %q", line, originals[k])
		}
	}
	for step, wanted := range []int{0, 0, 20, 0, 20, 0} { // new hosts: a tenth of all every other minute
		fresh := 0
		for name := range names[step] {
			if step > 0 && !names[step-1][name] {
				fresh++
			}
		}
		if len(names[step]) != hosts || fresh < wanted-1 || fresh > wanted+1 {
			t.Errorf("step %d has %d hosts, %d of them new", step, len(names[step]), fresh)
		}
	}
	if !names[0]["host_0"] || !names[0]["host_199"] {
		t.Error("the first step has other names than what was loaded")
	}
}

func TestWhatIsNoLineIsLeftAlone(t *testing.T) {
	plan := &record.Plan{Workload: &record.WorkloadPlan{DataKind: "high-variance", IntervalS: 1,
		Churn: &record.Churn{Pct: 10, EveryS: 1}}}
	const text = "error: no such use case\nhostname=host_x y\nhostname=host_1\n\nand an end with no"
	if out := write(t, text, 1<<20, changesOf(&job{plan: plan, behind: "mixed"})); out != text {
		t.Error(out)
	}
}
