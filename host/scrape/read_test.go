package scrape

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"tsduel/host/record"
)

// packed writes a metrics.prom.gz.
func packed(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "metrics.prom.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	pack := gzip.NewWriter(file)
	_, _ = pack.Write([]byte(text))
	if pack.Close() != nil || file.Close() != nil {
		t.Fatal(path)
	}
	return path
}

// Only matching labels are summed, over the components of a variant too, and by role; a missing name is no error.
func TestSnapshotsSumWhatBelongsTogether(t *testing.T) {
	wanted := map[string]record.Counter{"kept": {Name: "rows|vm_rows", Labels: map[string]string{"type": "storage/.*"}},
		"rss": Kernel["rss"], "rss@front": OfComponent(Kernel["rss"], "front"), "merges": {Name: "vm_merges_total"},
		"one": {Name: "rows", Role: "vmauth"}}
	all, err := Read(packed(t, `junk 1
# snapshot 10.500000 edge query end cpu-max-all-1
tsduel_process_resident_memory_bytes{role="front"} 400
tsduel_process_resident_memory_bytes{role="server"} 600
vm_rows{type="storage/inmemory"} 5
vm_rows{type="indexdb/file"} 9252
rows{tsduel_role="vmauth",type="storage/x"} 1.5e+01
rows{tsduel_role="server"} NaN
vm_rows_total 9
# snapshot 11 tick
tsduel_process_resident_memory_bytes{role="front"} 7
vm_rows{type="storage/inmemory"} 6
vm_rows{type="stor
`), wanted)
	if err != nil || len(all) != 2 || all[0].Epoch != 10.5 || all[0].Phase != "query" || all[0].Edge != "end" ||
		all[0].Subject != "cpu-max-all-1" {
		t.Fatal(all, err)
	}
	want := map[string]float64{"kept": 20, "rss": 1000, "rss@front": 400, "one": 15}
	if !maps.Equal(all[0].Values, want) {
		t.Error(all[0].Values)
	}
	// A scrape that broke in the middle of a line lacks this counter alone.
	if want := map[string]float64{"rss": 7, "rss@front": 7}; !maps.Equal(all[1].Values, want) {
		t.Error(all[1].Values)
	}
}

// Times, exemplars, escapes, tabs and blanks harm no sum, at an edge and in a tick, whether or not a series is known.
func TestSnapshotsOfExporters(t *testing.T) {
	text, err := os.ReadFile("../../tests/data/exposition.json")
	var cases []struct {
		Exporter, Text string
		Sums           []struct {
			record.Counter
			Sum *float64
		}
	}
	if err != nil || json.Unmarshal(text, &cases) != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range cases {
		wanted, want := map[string]record.Counter{}, map[string]float64{}
		for i, one := range c.Sums {
			wanted[fmt.Sprint(i)] = one.Counter
			if one.Sum != nil {
				want[fmt.Sprint(i)] = *one.Sum
			}
		}
		all, err := Read(packed(t, "# snapshot 1 edge load end\n"+c.Text+"\n# snapshot 2 tick\n"+c.Text+"\n"), wanted)
		if err != nil || len(all) != 2 || !maps.Equal(all[0].Values, want) || !maps.Equal(all[1].Values, want) {
			t.Errorf("%s: %v instead of %v, %v", c.Exporter, all, want, err)
		}
	}
}

// A counter that appears during a phase counts from 0, unless /metrics was not read at its begin.
func TestGrowth(t *testing.T) {
	wanted := map[string]record.Counter{"a": {Name: "a"}, "b": {Name: "b"}, "c": {Name: "c"}, "rss": Kernel["rss"]}
	const kernel = "tsduel_process_resident_memory_bytes{role=\"server\"} 2\n"
	all, err := Read(packed(t, "# snapshot 1 edge load begin\na 5\n# snapshot 2 edge load end\na 7\nb 3\n"+
		"# snapshot 3 edge load end\na 9\nb 4\n# snapshot 4 edge settle begin\n"+kernel), wanted)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := &all[0], &all[2]
	for counter, want := range map[string]float64{"a": 4, "b": 4} {
		if grown, known := Growth(begin, end, counter); !known || grown != want {
			t.Error(counter, grown, known)
		}
	}
	for counter, from := range map[string]*Snapshot{"c": begin, "a": &all[3], "b": nil} {
		if grown, known := Growth(from, end, counter); known {
			t.Error(counter, grown)
		}
	}
}

// A file that a crash has cut, and at an edge a line that is no sample, are errors.
func TestSnapshotsThatCannotBeRead(t *testing.T) {
	wanted := map[string]record.Counter{"a": {Name: "a_total"}}
	whole := packed(t, "# snapshot 1 tick\na_total 5 later\n# snapshot 2 tick\na_total{x=\"1} 5\n")
	if all, err := Read(whole, wanted); err != nil || len(all[0].Values)+len(all[1].Values) > 0 {
		t.Error(all, err)
	}
	text, _ := os.ReadFile(whole)
	cut := filepath.Join(t.TempDir(), "cut.gz")
	_ = os.WriteFile(cut, text[:40], 0o600)
	for _, path := range []string{cut, "none", packed(t, "# snapshot 1 edge load end\na_total 5 later\n"),
		packed(t, "# snapshot x tick\n"), packed(t, "# snapshot 1 edge load end\na_total{x=1} 5\n")} {
		if all, err := Read(path, wanted); err == nil {
			t.Error(path, all)
		}
	}
}
