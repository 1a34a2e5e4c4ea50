package block

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsduel/host/servers"
)

// A variant behind a proxy and an agent is one variant: usage is added up and kept by role, and samples that
// the agent has queued count after they are stored.
func TestComponentsAreOneVariant(t *testing.T) {
	t.Parallel()
	spec := fakes(t)
	behind(spec, map[string]string{"vmauth": "slow=0.5", "vmagent": ""})
	b := run(t, spec)
	succeeded(t, b)
	solo := b.Solo["candidate"]
	for _, role := range []string{"vmauth", "vmagent", "server"} {
		for what, by := range map[string]map[string]int64{
			"CPU of the load": solo.CPUNSByRole["drained"], "CPU of the closed loop": solo.CPUNSByRole["query:"+types[0]],
			"bytes on disk":    solo.SizesByRole["disk_bytes"],
			"CPU of exchanges": b.Duel.Types[0].CPUNSByRole["candidate"],
			"CPU of ingestion": b.Duel.Load[0].CPUNSByRole["candidate"], "memory": b.Duel.RSSByRole["candidate"],
		} {
			// no query comes by it
			asked := role != "vmagent" || !strings.Contains(what, "loop") && !strings.Contains(what, "exchanges")
			if asked && by[role] <= 0 || len(by) != 3 {
				t.Errorf("%s: %v", what, by)
			}
		}
		if log := string(must(os.ReadFile(filepath.Join(spec.Dir, "candidate", role+".log")))); role != "server" &&
			!strings.Contains(log, "files relabel.yml\n") {
			t.Errorf("%s began in a directory with others' files: %s", role, log)
		}
	}
	if sum := servers.Usage(solo.CPUNSByRole["load"]).Sum(); sum != solo.CPUNS["load"] {
		t.Errorf("%d and not %d", sum, solo.CPUNS["load"])
	}
	// The direct one is kept by role too, to be held against it; and it queues nothing.
	if by := b.Duel.Types[0].CPUNSByRole["baseline"]; len(by) != 1 || by["server"] <= 0 ||
		b.Solo["baseline"].ArriveS != nil || solo.ArriveS == nil {
		t.Errorf("%v %+v", by, b.Solo)
	}
	// Last to first, each verb with its role; of settle every one.
	seen := regexp.MustCompile(`ready( vmauth| vmagent)? ?`).ReplaceAllString(strings.Join(calls(spec), " "), "")
	if want := "start start vmagent start vmauth endpoints vmauth endpoints vmagent endpoints load vmauth settle " +
		"vmauth settle vmagent settle stop vmauth stop vmagent stop"; !strings.HasPrefix(seen, want) {
		t.Error(seen)
	}
	checksPassed(t, b)
}
