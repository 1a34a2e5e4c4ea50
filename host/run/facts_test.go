package run

import (
	"encoding/json"
	"os"
	"testing"
)

// changed changes raw/host1.json.
func (f *fixture) changed(change func(facts map[string]any)) {
	f.t.Helper()
	facts := map[string]any{}
	must(f.t, json.Unmarshal([]byte(f.read("raw/host1.json")), &facts))
	change(facts)
	f.put("raw/host1.json", facts)
}

// A run goes on where its blocks were measured, and nowhere else.
func TestARunGoesOnOnTheSameMachine(t *testing.T) {
	t.Setenv("LANG", "C")
	f := newFixture(t, 2, 0)
	f.run(t.Context(), 0)
	f.wantRan(0, 1, 2)
	must(t, os.RemoveAll(f.path("raw/host1/002")))
	whole := f.read("raw/host1.json")
	wantIn(t, whole, `"LANG": "C"`)
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"architecture", "s390x", "the architecture from s390x to "},
		{"cpu_model", "8086", "the CPU from 8086 to "},
		{"cpus", 999, "the number of CPUs from 999 to "},
		{"memory_bytes", 1 << 20, "the memory from 1 MiB to "},
		{"pin", map[string]any{"server": []int{0, 1}, "client": []int{2}},
			"the CPUs of the servers from 0,1 to none in particular, the CPUs of the client"},
	} {
		f.put("raw/host1.json", whole)
		f.changed(func(facts map[string]any) { facts[c.key] = c.value })
		before := f.read("raw/host1.json")
		wantIn(t, f.run(t.Context(), 2), "this run cannot go on here: host1 has changed "+c.want, "; plan a new run")
		f.wantRan()
		failIf(t, f.read("raw/host1.json") != before, "what it was is forgotten")
	}
	// A new kernel, boot and environment are told once. A restart may change the memory a little.
	f.put("raw/host1.json", whole)
	f.changed(func(facts map[string]any) {
		facts["kernel"], facts["boot_id"], facts["memory_bytes"] = "2.6.32", "b", int64(facts["memory_bytes"].(float64)*1.005)
		facts["environment"].(map[string]any)["FAKE_S"] = "of a test"
		facts["environment"].(map[string]any)["LANG"] = "de_DE"
	})
	wantIn(t, f.run(t.Context(), 0), "host1 has changed the variable LANG from de_DE to C, the kernel from 2.6.32 to ",
		", its start (boot id) from b to ")
	f.wantRan(2)
	notes := len(f.events("note"))
	failIf(t, notes != 1, "%d notes", notes)
	f.run(t.Context(), 0)
	notes = len(f.events("note"))
	failIf(t, notes != 1, "%d notes", notes)
	// Facts that cannot be read now are no reason to compare two machines.
	must(t, os.Rename(f.path("raw/host1.json"), f.path("kept")))
	must(t, os.Symlink("/proc/self/mem", f.path("raw/host1.json")))
	wantIn(t, f.run(t.Context(), 2), "raw/host1.json cannot be read (input/output error)")
	must(t, os.Rename(f.path("kept"), f.path("raw/host1.json")))
	// Without whole facts, or without blocks, nothing is refused.
	f.put("raw/host1.json", `{"cpus`)
	f.run(t.Context(), 0)
	f.changed(func(facts map[string]any) { facts["cpus"] = 999 })
	for _, block := range []string{"raw/host1/000", "raw/host1/001", "raw/host1/002"} {
		must(t, os.RemoveAll(f.path(block)))
	}
	f.run(t.Context(), 0)
	f.wantRan(0, 1, 2)
}
