package gobench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Both readers of benchmarks, this one and tsduel/workloads/gobench, read the same results in what people have.
func TestCorpus(t *testing.T) {
	notes, _ := filepath.Glob("../../tests/corpus/gobench/*.json")
	if len(notes) < 12 {
		t.Fatalf("there are %d notes", len(notes))
	}
	for _, path := range notes {
		var note struct{ Comes struct{ Results [][]any } }
		text, err := os.ReadFile(path)
		must(t, err)
		must(t, json.Unmarshal(text, &note))
		input, err := os.ReadFile(strings.TrimSuffix(path, ".json"))
		must(t, err)
		found := results(string(input), 1)
		if len(found) != len(note.Comes.Results) {
			t.Errorf("%s: got %+v", path, found)
			continue
		}
		for i, want := range note.Comes.Results {
			name, count := strings.ToValidUTF8(found[i].name, "\ufffd"), float64(found[i].count)
			if name != want[0] || count != want[1] {
				t.Errorf("%s: got %s of %g, want %v", path, name, count, want)
			}
		}
	}
}
