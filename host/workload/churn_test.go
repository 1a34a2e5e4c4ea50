package workload

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"tsduel/host/record"
)

func TestSeriesComeAndGoByTheClockOfTheData(t *testing.T) {
	const hosts, steps, start = 200, 6, 1749600000
	var lines bytes.Buffer
	for step := range steps {
		for host := range hosts {
			fmt.Fprintf(&lines, "cpu,hostname=host_%d,region=eu usage_user=1i,usage_system=2i %d000000000\n", host, start+step*60)
		}
	}
	run := func(chunk int) string {
		var out bytes.Buffer
		c := &churned{to: &out, rule: record.Churn{Pct: 10, EveryS: 120}, start: start * 1e9}
		for text := lines.Bytes(); len(text) > 0; text = text[min(chunk, len(text)):] {
			if _, err := c.Write(text[:min(chunk, len(text))]); err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	renamed := run(1 << 20)
	if renamed != run(7) {
		t.Error("how the lines come in pieces changes them")
	}
	var names []map[string]bool // by step
	for k, line := range strings.Split(strings.TrimSpace(renamed), "\n") {
		if k%hosts == 0 {
			names = append(names, map[string]bool{})
		}
		host, _, _ := strings.Cut(strings.TrimPrefix(line, "cpu,hostname="), ",")
		names[k/hosts][host] = true
		if original := strings.Split(lines.String(), "\n")[k]; strings.Replace(line, host, fmt.Sprintf("host_%d", k%hosts), 1) != original {
			t.Fatalf("%q was %q", line, original)
		}
	}
	for step, wanted := range []int{0, 0, 20, 0, 20, 0} { // new ones: a tenth every other minute
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

func TestWhatIsNoLineOfTheGeneratorIsLeftAsItIs(t *testing.T) {
	var out bytes.Buffer
	const text = "error: no such use case\nhostname=host_x y\nhostname=host_1\n\n"
	c := &churned{to: &out, rule: record.Churn{Pct: 10, EveryS: 1}}
	if _, err := c.Write([]byte(text)); err != nil || out.String() != text {
		t.Errorf("%q, %v", out.String(), err)
	}
}
