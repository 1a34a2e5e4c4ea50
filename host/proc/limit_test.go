package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// limitedHere starts a program with limits; the test is left out where no group can be made.
func limitedHere(t *testing.T, limits Limits, program string) *Process {
	t.Helper()
	if err := CanLimit(limits); err != nil {
		t.Skip("no control groups with limits here:", err)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Command{Argv: []string{bash, "-c", program}, Dir: t.TempDir(), Scratch: t.TempDir(), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// A program that never rests gets a small part of a CPU, and the time that it was held back is counted.
func TestALimitOfCPUHoldsAProgramBack(t *testing.T) {
	p := limitedHere(t, Limits{CPUs: 0.02}, "while :; do :; done")
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if held, limited := p.Throttled(); limited && held > 0 {
			return
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal("it is not held back")
		}
	}
}

// A program that needs more memory than its limit is ended, and it is known why; its groups are gone then.
func TestALimitOfMemoryEndsAProgram(t *testing.T) {
	p := limitedHere(t, Limits{Memory: 32 << 20}, `x=$(head -c 200000000 /dev/zero | tr '\0' x); echo "${#x}"`)
	select {
	case <-p.Ended():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if p.LimitKills() == 0 {
		t.Error("no kill was counted, exit code", p.Exit().Code)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	for _, dir := range p.limited.made {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Error(dir, "is left")
		}
	}
}

// Without limits there is no group, and nothing is counted.
func TestAProgramWithoutLimitsIsFree(t *testing.T) {
	p := limitedHere(t, Limits{}, "sleep 9")
	if _, limited := p.Throttled(); limited || p.LimitKills() != 0 || len(p.limited.made) > 0 {
		t.Error("limited:", strings.Join(p.limited.made, " "))
	}
}

// In v2 the groups of a program are made where the controllers of its limits are given on, or below its own.
func TestWhereTheGroupsOfLimitsAreMade(t *testing.T) {
	defer controllers.Store(controllers.Load())
	root := t.TempDir()
	session := filepath.Join(root, "user.slice", "session.scope")
	if err := os.MkdirAll(session, 0o755); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{root: "cpuset cpu io memory", filepath.Dir(session): "memory pids", session: ""}
	for dir, names := range given {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(names+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		kind   string
		needed []string
		first  string
	}{
		{"v2", []string{"cpu", "memory"}, root},
		{"v2", []string{"memory"}, filepath.Dir(session)},
		{"v2", []string{"hugetlb"}, session},
		{"v1", []string{"memory"}, session},
	} {
		controllers.Store(&c.needed)
		if dirs := (ownGroup{kind: c.kind, dir: session, root: root}).places(); dirs[0] != c.first {
			t.Errorf("%s %v: %v", c.kind, c.needed, dirs)
		}
	}
	controllers.Store(nil)
	if dirs := (ownGroup{kind: "v2", dir: session, root: root}).places(); !slices.Equal(dirs, []string{session}) {
		t.Error(dirs)
	}
}
