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

// boot starts a systemd of its own, in namespaces and control groups of its own, with no units but the targets that a unit needs.
// It returns what makes a command one of that machine's; where systemd cannot be booted the test is skipped.
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
	// It ends with the thread that started it.
	runtime.LockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if left, _ := exec.Command("sh", "-c", "find /sys/fs/cgroup/"+groups+" /sys/fs/cgroup/*/"+groups+" -depth -type d -delete; ls -d /sys/fs/cgroup/"+
				groups+" /sys/fs/cgroup/*/"+groups).Output(); len(left) == 0 {
				return
			}
		}
	})
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		child, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.Process.Pid, c.Process.Pid))
		pid := strings.TrimSpace(string(child))
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		there := []string{"nsenter", "--target", pid, "--mount", "--pid", "--"}
		if string(name) == "systemd\n" && exec.Command(there[0], append(slices.Clone(there[1:]), "systemctl", "is-active", "--quiet", "basic.target")...).Run() == nil {
			return there
		}
	}
	t.Skip("systemd cannot be booted here")
	return nil
}

func TestTheUnitOfARunAsSystemdHasIt(t *testing.T) {
	there := boot(t)
	real, err := exec.LookPath("systemd-run")
	must(t, err)
	tools := t.TempDir()
	for tool, text := range map[string]string{"systemd-run": "exec " + strings.Join(there, " ") + " " + real + " \"$@\"\n", "fstrim": "", "sysctl": ""} {
		must(t, os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\n"+text), 0o755))
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	systemd = tools
	defer func() { systemd = "/run/systemd/system" }()
	f := newFixture(t, 1, 0)
	old := f.dir
	f.dir = filepath.Join(filepath.Dir(old), "r")
	must(t, os.Rename(old, f.dir))
	f.plan["place"] = map[string]any{"kind": "gcp"}
	f.write()
	d, err := NewDetached(f.dir, f.cache)
	must(t, err)
	environment := []string{"systemctl", "set-environment", "FAKE_DRIVER=1", "FAKE_S=600", "TSDUEL_LOCK=" + os.Getenv("TSDUEL_LOCK")}
	must(t, exec.Command(there[0], append(slices.Clone(there[1:]), environment...)...).Run())
	if err := d.Start(); err != nil {
		log, _ := os.ReadFile(d.file("log"))
		t.Fatalf("%v: %s", err, log)
	}
	f.waitFor("a block", f.exists("raw/000.partial"))
	// The kernel kills a server for its memory: the unit, and so the run, goes on. And what it runs cannot become root again.
	names := []string{"ActiveState", "KillMode", "NoNewPrivileges", "OOMPolicy", "TimeoutStopUSec"}
	show := append(slices.Clone(there[1:]), "systemctl", "show", "tsduel-r.service", "--property="+strings.Join(names, ","))
	said, err := exec.Command(there[0], show...).CombinedOutput()
	must(t, err)
	for _, want := range []string{"ActiveState=active", "KillMode=mixed", "NoNewPrivileges=yes", "OOMPolicy=continue", "TimeoutStopUSec=2min"} {
		wantIn(t, string(said), want)
	}
}
