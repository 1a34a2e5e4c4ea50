package record

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The lines of a whole run equal those in its recorded events, and those of Python's view: the golden file.
func TestLinesAreTheGoldenOnes(t *testing.T) {
	var said []string
	for _, line := range strings.Split(strings.TrimSpace(read(t, "../../tests/data/events.jsonl")), "\n") {
		var fields Fields
		var typed struct{ Failures []Failure }
		must(t, errors.Join(json.Unmarshal([]byte(line), &fields), json.Unmarshal([]byte(line), &typed)))
		fields["failures"] = typed.Failures
		if _, text := plainLine(fields["event"].(string), fields); text != "" {
			if fields["line"] != text {
				t.Errorf("the event carries %q, and its line is %q", fields["line"], text)
			}
			at := time.UnixMicro(int64(fields["t"].(float64) * 1e6)).UTC()
			said = append(said, at.Format("15:04:05")+" "+text)
		}
	}
	if want := strings.TrimSpace(read(t, "../../tests/golden/view-lines.txt")); strings.Join(said, "\n") != want {
		t.Errorf("lines differ from tests/golden/view-lines.txt:\n%s", strings.Join(said, "\n"))
	}
}

// A request to stop, a failed client, a spoilt block, the ends of a run, and an unknown event.
func TestLinesOfWhatSeldomHappens(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields Fields
		said   string
	}{
		{"stop-requested", Fields{"block": 3}, "stop requested: block 3 is finished first"},
		{"phase-end", Fields{"phase": "load", "exit": 2, "seconds": 3.14}, "load ended with exit code 2 after 3.1 s"},
		{"block-replaced", Fields{"block": 3, "spare": 9, "message": "steal 7 %"},
			"block 3 does not count, spare block 9 is run instead: steal 7 %"},
		{"block-end", Fields{"block": 3, "status": OK, "void": "unequal"}, "block 3 does not count: unequal"},
		{"progress", Fields{"phase": "load"}, ""},
		{"what", Fields{"message": "x"}, ""},
		{"run-end", Fields{"status": OK}, "all blocks are run"},
		{"run-end", Fields{"status": "interrupted", "message": "stopped as asked", "kind": "gobench", "run": "r"},
			"stopped as asked; finished blocks are kept. To go on: make gobench RUN=r"},
		{"run-end", Fields{"status": Failed, "message": "3 blocks have failed"},
			"the run has stopped: 3 blocks have failed"},
	} {
		if _, said := plainLine(c.name, c.fields); said != c.said {
			t.Errorf("%s says %q and not %q", c.name, said, c.said)
		}
	}
}

// A text that is too long for one line of the file is cut, and so is its sentence.
func TestAnEventIsOneShortLine(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "raw", "events.jsonl"), "")
	events := NewEvents(dir, filepath.Join(dir, "raw"), true)
	events.Note(1, "candidate", "", strings.Repeat("x", 5000))
	events.Note(2, "", "", strings.Repeat("\x01", 5000))
	lines := strings.Split(strings.TrimSpace(read(t, filepath.Join(dir, "raw", "events.jsonl"))), "\n")
	for i, begin := range []string{"block 1 candidate: xxx", "block 2: \x01\x01"} {
		var event struct{ Message, Line string }
		err := json.Unmarshal([]byte(lines[i]), &event)
		if err != nil || len(lines[i]) >= longestLine || !strings.HasPrefix(event.Line, begin) {
			t.Errorf("%d bytes: %.100s, %v", len(lines[i]), lines[i], err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}
