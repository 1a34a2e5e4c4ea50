package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"tsduel/host/record"

	"golang.org/x/sys/unix"
)

// systemd exists if systemd runs; tests have another path.
var systemd = "/run/systemd/system"

// launch runs `detached rounds` as a unit of systemd, or in its own session if there is none: neither ends with
// the connection of the user.
func (d *Detached) launch() error {
	program, log, err := d.programAndLog()
	if err != nil {
		return err
	}
	defer log.Close()
	command := func(argv ...string) *exec.Cmd {
		c := exec.Command(argv[0], argv[1:]...)
		c.Stdout, c.Stderr = log, log
		return c
	}
	// Through a shell: where SELinux is enforcing, systemd may not execute what lies in /var/tmp or a home.
	argv := []string{"/bin/sh", "-c", `exec "$0" "$@"`, program, "detached", "rounds", d.runDir, d.cache}
	argv = append(argv, d.share...)
	// OOMPolicy: when the kernel kills a server for its memory, the block fails, and the run must go on.
	unit := []string{"systemd-run", "--quiet", "--collect",
		"--unit=tsduel-" + filepath.Base(d.runDir),
		"--property=KillMode=mixed", "--property=TimeoutStopSec=120", "--property=OOMPolicy=continue"}
	root := []string{}
	if os.Geteuid() != 0 {
		root = []string{"sudo", "-n"}
	}
	if command(append(root, "true")...).Run() == nil {
		plan, err := record.LoadPlan(d.runDir)
		rented := err == nil && plan.Place.Kind == "gcp"
		// Every run finds the disk and the page cache in the same state; on the user's own machine only if they
		// asked for it. A container may not do this; the log has what failed.
		if rented || (err == nil && plan.Host.DropCaches) {
			if rented {
				_ = command(append(root, "fstrim", "-v", "--", d.cache)...).Run()
			}
			unix.Sync()
			_ = command(append(root, "sysctl", "-q", "vm.drop_caches=3")...).Run()
		}
		if exists(systemd) {
			// NoNewPrivileges: on a rented machine our user has sudo, and the measured programs must not use it.
			// Delegate: a user who is not root may make groups of processes in the unit.
			unit = append(unit, "--property=Delegate=yes",
				fmt.Sprintf("--uid=%d", os.Getuid()), fmt.Sprintf("--gid=%d", os.Getgid()),
				fmt.Sprintf("--property=NoNewPrivileges=%t", rented && !plan.Host.DropCaches), "--")
			return command(slices.Concat(root, unit, argv)...).Run()
		}
	}
	if endsWithTheSession() {
		// A lingering user's own units outlive the session.
		before, _ := exec.Command("loginctl", "show-user", "--property=Linger", "--value", fmt.Sprint(os.Getuid())).Output()
		lingers := command("loginctl", "enable-linger").Run()
		if lingers == nil && strings.TrimSpace(string(before)) != "yes" {
			_ = os.WriteFile(filepath.Join(d.cache, "linger"), nil, 0o600) // uninstall undoes it
		}
		if lingers == nil && command(slices.Concat(unit, []string{"--user", "--"}, argv)...).Run() == nil {
			return nil
		}
		return record.UserError("this machine ends what a user has started once the user logs out (KillUserProcesses=yes " +
			"of systemd-logind), so that the run would end with the connection: have 'sudo -n' allowed there, or ask who " +
			"administers it for 'loginctl enable-linger USER'")
	}
	c := command(argv...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Start()
}

// endsWithTheSession says whether logind kills the processes of a session that ends.
func endsWithTheSession() bool {
	answer, _ := exec.Command("busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1",
		"org.freedesktop.login1.Manager", "KillUserProcesses").Output()
	return exists(systemd) && strings.TrimSpace(string(answer)) == "b true"
}

// Start launches `detached rounds` unless it runs, and waits until it is up. A lock allows only one at a time.
func (d *Detached) Start() error {
	lock, err := os.OpenFile(d.file("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil || d.pid() != 0 {
		return err
	}
	if err := d.Collected(); err != nil {
		return err
	}
	d.awaitOrphan(startPatience)
	events := filepath.Join(d.raw, "events.jsonl")
	for _, path := range []string{events, filepath.Join(d.runDir, "run.log")} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		f.Close()
	}
	if err := mendEvents(events, func(string) {}); err != nil { // before anybody follows it
		return err
	}
	if err := d.launch(); err != nil {
		return err
	}
	waitUntil(startPatience, func() bool { return exists(d.file("pid")) })
	return nil
}
