package run

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Where logind kills what a user has started, a run without sudo is a unit of the user's own, who lingers; else
// it does not begin, and the sentence says why.
func TestARunOutlivesTheSessionOrSaysSo(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	fakeTools(t, map[string]string{"true": "exit 1", "sudo": "exit 1", "busctl": "echo 'b true'",
		"loginctl":    "echo loginctl \"$@\" >>" + log + "; exit $FAKE_REFUSED",
		"systemd-run": "echo systemd-run \"$@\" >>" + log})
	d := newFixture(t, 1, 0).detached("host1")
	t.Setenv("FAKE_REFUSED", "0")
	must(t, d.launch())
	text, err := os.ReadFile(log)
	must(t, err)
	wantIn(t, string(text), "loginctl enable-linger\n", "systemd-run ", " --user -- /bin/sh -c exec \"$0\" \"$@\" ")
	t.Setenv("FAKE_REFUSED", "1")
	wantIn(t, fmt.Sprint(d.launch()), "this machine ends what a user has started once the user logs out "+
		"(KillUserProcesses=yes", "'loginctl enable-linger USER'")
}
