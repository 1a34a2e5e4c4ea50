package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// The kernel's v2: a group with a process gives its groups no controller, one above it does, and the limit is written.
// Tried with whatever controller is to be had here, since those of cpu and memory may be v1's.
func TestInV2AGroupAboveGivesWhatASessionCannot(t *testing.T) {
	root, name := "", ""
	for _, at := range ownGroups("cpuacct") {
		for _, known := range []string{"cpu", "memory", "pids", "hugetlb"} {
			if at.kind == "v2" && name == "" && slices.Contains(strings.Fields(Text(at.root, "cgroup.controllers")), known) {
				root, name = at.root, known
			}
		}
	}
	// Without the names of our groups, which other tests remove when their program has ended.
	session, above := filepath.Join(root, "session-of-a-test"), filepath.Join(root, "groups-of-a-test")
	if root == "" || os.Mkdir(session, 0o755) != nil {
		t.Skip("no v2 with a controller in which groups may be made")
	}
	given := Text(root, "cgroup.subtree_control")
	write := func(dir, file, text string) error { return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644) }
	defer func(before *[]string) {
		controllers.Store(before)
		_, _, _ = os.Remove(filepath.Join(above, "1")), os.Remove(above), os.Remove(session)
		if !strings.Contains(given, name) {
			_ = write(root, "cgroup.subtree_control", "-"+name)
		}
	}(controllers.Load())
	sleeper := exec.Command("sleep", "60")
	if err := errors.Join(write(root, "cgroup.subtree_control", "+"+name), sleeper.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = sleeper.Process.Kill(), sleeper.Wait() }()
	if err := write(session, "cgroup.procs", strconv.Itoa(sleeper.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if err := write(session, "cgroup.subtree_control", "+"+name); err == nil {
		t.Error("a group with a process gives its groups controllers")
	}
	controllers.Store(&[]string{name})
	if dirs := (ownGroup{kind: "v2", dir: session, root: root}).places(); dirs[0] != root {
		t.Fatal(dirs)
	}
	own := &Group{Kind: "v2", dir: filepath.Join(above, "1")}
	if err := os.MkdirAll(own.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var l limited
	l.groups = map[string]limitGroup{}
	if err := l.set(name, sleeper.Process.Pid, own, nil); err != nil {
		t.Error(err)
	}
	if files := Glob(own.dir, name+".*"); len(files) == 0 {
		t.Error("its group has no file of", name)
	}
}
