package record

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// The lines of a whole run are to the letter those that Python's view makes of the same events, which are in the golden file.
func TestLinesAreTheGoldenOnes(t *testing.T) {
	var said []string
	for _, line := range strings.Split(strings.TrimSpace(read(t, "../../tests/data/events.jsonl")), "\n") {
		var fields Fields
		var typed struct{ Failures []Failure }
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(line), &typed); err != nil {
			t.Fatal(err)
		}
		fields["failures"] = typed.Failures
		if text := Line(fields["event"].(string), fields); text != "" {
			at := time.UnixMicro(int64(fields["t"].(float64) * 1e6)).UTC()
			said = append(said, at.Format("15:04:05")+" "+text)
		}
	}
	if want := strings.TrimSpace(read(t, "../../tests/golden/view-lines.txt")); strings.Join(said, "\n") != want {
		t.Errorf("lines differ from tests/golden/view-lines.txt:\n%s", strings.Join(said, "\n"))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
