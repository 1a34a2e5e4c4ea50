package run

import (
	"os"
	"path/filepath"
	"testing"

	"tsduel/host/record"
)

// A run goes on with the agent, the adapters and the builds of its first blocks, and with no others.
func TestARunGoesOnWithWhatItsBlocksWereMadeWith(t *testing.T) {
	f := newFixture(t, 2, 0)
	program := filepath.Join(t.TempDir(), "server")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	f.put("build/candidate.json", map[string]any{"binary": program,
		"components": []any{map[string]any{"role": "server", "binary": program}}})
	f.put("project/scripts/targets/victoriametrics/start", "exec a")
	f.put("project/scripts/lib/sizes.sh", "used() { :; }")
	f.run(t.Context(), 0)
	f.wantRan(0, 1, 2)
	var b record.Block
	whole := f.read("raw/host1/001/block.json")
	must(t, record.ReadJSON(f.path("raw/host1/001/block.json"), &b))
	failIf(t, len(b.Method.Agent) != 64 || len(b.Method.Adapters) != 64 ||
		b.Method.Programs["candidate/server"] == b.Method.Programs["baseline"] ||
		len(b.Method.Programs["tsbs/tsbs_generate_data"]) != 64, "%+v", b.Method)
	// A run that has all its blocks is shown again, whatever there is now.
	f.put("project/scripts/targets/victoriametrics/start", "exec b")
	f.run(t.Context(), 0)
	f.wantRan()
	must(t, os.RemoveAll(f.path("raw/host1/002")))

	refused := func(what string) {
		t.Helper()
		wantIn(t, f.run(t.Context(), 2), "block 0 was measured with another "+what+" than what is there now",
			"make tsbs RUN="+filepath.Base(f.dir)+" KEPT=1. To start anew: the same command without RUN=")
		f.wantRan()
	}
	f.put("project/scripts/targets/victoriametrics/start", "exec a -other.flag")
	refused("adapters (scripts/targets)")
	f.put("project/scripts/targets/victoriametrics/start", "exec a")
	f.put("project/scripts/targets/victoriametrics/forget", "a verb that was not there")
	refused("adapters (scripts/targets)")
	must(t, os.Remove(f.path("project/scripts/targets/victoriametrics/forget")))
	f.put("project/scripts/lib/sizes.sh", "used() { false; }")
	refused("adapters (scripts/targets)")
	f.put("project/scripts/lib/sizes.sh", "used() { :; }")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\n# built with another Go\n"), 0o755))
	refused("candidate, candidate/server")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	f.run(t.Context(), 0)
	f.wantRan(2)

	// A block of an agent that kept no such record was measured by another one.
	must(t, os.RemoveAll(f.path("raw/host1/002")))
	b.Method = record.Method{}
	must(t, record.WriteJSON(f.path("raw/host1/001/block.json"), b))
	wantIn(t, f.run(t.Context(), 2), "block 1 was measured with another tsduel-host, adapters (scripts/targets) than")
	f.wantRan()
	f.put("raw/host1/001/block.json", whole)
	f.run(t.Context(), 0)
	f.wantRan(2)
}
