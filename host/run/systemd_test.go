package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// boot starts a second systemd in its own namespaces and control groups, with no units but the targets that a
// unit needs. It returns the words that run a command inside. If systemd cannot boot, it skips the test.
func boot(t *testing.T) []string {
	t.Helper()
	program, err := exec.LookPath("systemd")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("no systemd here, or no right to boot one")
	}
	units, script := t.TempDir(), filepath.Join(t.TempDir(), "boot")
	for _, target := range []string{"basic", "sysinit", "shutdown"} {
		must(t, os.WriteFile(filepath.Join(units, target+".target"), []byte("[Unit]\nDefaultDependencies=no\n"), 0o644))
	}
	groups := fmt.Sprintf("tsduel-test-%d", os.Getpid())
	must(t, os.WriteFile(script, []byte(`#!/bin/bash
if [[ $1 == groups ]]; then
  for group in /sys/fs/cgroup /sys/fs/cgroup/{systemd,unified}; do
    if [[ -e $group/cgroup.procs ]]; then mkdir "$group/$2" && echo $$ >"$group/$2/cgroup.procs"; fi
  done
  exec unshare --mount --pid --cgroup --ipc --uts --fork --kill-child=KILL "$0" init "$3" "$4"
fi
mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system || exit
exec env container=test SYSTEMD_UNIT_PATH="$3" "$2" --system --unit=basic.target --log-target=console
`), 0o755))
	c := exec.Command(script, "groups", groups, program, units)
	// The signal is bound to this thread.
	runtime.LockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			dirs := "/sys/fs/cgroup/" + groups + " /sys/fs/cgroup/*/" + groups
			left, _ := exec.Command("sh", "-c", "find "+dirs+" -depth -type d -delete; ls -d "+dirs).Output()
			if len(left) == 0 {
				return
			}
		}
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.Process.Pid, c.Process.Pid))
		pid := strings.TrimSpace(string(child))
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		inside := []string{"nsenter", "--target", pid, "--mount", "--pid", "--"}
		active := append(slices.Clone(inside), "systemctl", "is-active", "--quiet", "basic.target")
		if string(name) == "systemd\n" && exec.Command(active[0], active[1:]...).Run() == nil {
			return inside
		}
	}
	t.Skip("systemd cannot be booted here")
	return nil
}

func TestTheUnitOfARunAsSystemdHasIt(t *testing.T) {
	inside := boot(t)
	command := func(argv ...string) *exec.Cmd {
		return exec.Command(inside[0], append(slices.Clone(inside[1:]), argv...)...)
	}
	real, err := exec.LookPath("systemd-run")
	must(t, err)
	fakeTools(t, map[string]string{"systemd-run": "exec " + strings.Join(inside, " ") + " " + real + " \"$@\"",
		"fstrim": "", "sysctl": ""})
	f := newFixture(t, 1, 0)
	old := f.dir
	f.dir = filepath.Join(filepath.Dir(old), "r")
	must(t, os.Rename(old, f.dir))
	f.plan["place"] = map[string]any{"kind": "gcp"}
	d := f.detached("host1")
	must(t, command("systemctl", "set-environment", "FAKE_DRIVER=1", "FAKE_S=600",
		"TSDUEL_LOCK="+os.Getenv("TSDUEL_LOCK")).Run())
	if err := d.Start(); err != nil {
		log, _ := os.ReadFile(d.file("log"))
		t.Fatalf("%v: %s", err, log)
	}
	f.waitFor("a block", f.exists("raw/host1/000.partial"))
	// If the kernel kills a server for its memory, the unit goes on. And its programs cannot become root.
	names := []string{"ActiveState", "Delegate", "KillMode", "NoNewPrivileges", "OOMPolicy", "TimeoutStopUSec"}
	shown, err := command("systemctl", "show", "tsduel-r.service", "--property="+strings.Join(names, ",")).CombinedOutput()
	must(t, err)
	wantIn(t, string(shown), "ActiveState=active", "Delegate=yes", "KillMode=mixed", "NoNewPrivileges=yes",
		"OOMPolicy=continue", "TimeoutStopUSec=2min")
}
