package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tsduel/host/machine"
	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"

	"golang.org/x/sys/unix"
)

const (
	// startPatience is for a process to come up. It is longer than the waits for two locks.
	startPatience = 30 * time.Second
	// stopPatience is for a driver to end: writing a server's data to the disk may take a minute.
	stopPatience = 120 * time.Second
)

// Detached is a run that goes on if nobody watches. Its state is in RUN_DIR/control: pid (with when that
// process began, and in which boot), exit (the exit code, after the end) and log.
type Detached struct {
	runDir, cache, control, raw string
	share                       []string // HOST and BLOCKs, as arguments of `tsduel-host run`
}

// NewDetached of a host's part of a run in a cache; lost are blocks of other hosts.
func NewDetached(runDir, cache, host string, lost ...string) (*Detached, error) {
	runDir, err := filepath.Abs(realPath(runDir))
	if err != nil {
		return nil, err
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return nil, err
	}
	d := &Detached{runDir, cache, filepath.Join(runDir, "control"), record.RawDir(runDir, host),
		append([]string{host}, lost...)}
	for _, dir := range []string{d.control, filepath.Dir(d.raw), d.raw} {
		// Not MkdirAll: the directory of the run must exist.
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return nil, record.UserError("%s is no run: %v", runDir, err)
		}
	}
	return d, record.PrivateDir(cache)
}

// waitUntil looks until something is so, for patience at most. It returns whether it is.
func waitUntil(patience time.Duration, is func() bool) bool {
	for deadline := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func (d *Detached) programAndLog() (program string, log *os.File, err error) {
	if program, err = os.Executable(); err == nil {
		log, err = os.OpenFile(d.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	return program, log, err
}

// Rounds is what Start launches: it runs the driver, passes signals on, and writes how the driver ended.
func (d *Detached) Rounds() error {
	program, log, err := d.programAndLog()
	if err != nil {
		return err
	}
	defer log.Close()
	// A build that was interrupted leaves the logins of its repositories, and versions run as the user who may
	// read them.
	for _, login := range matching(filepath.Join(d.cache, "secrets"), "git-*") {
		_ = os.Remove(login)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	driver := exec.Command(program, append([]string{"run", d.runDir}, d.share...)...)
	driver.Env = append(os.Environ(), "TSDUEL_CACHE="+d.cache, "TSDUEL_DIE_WITH_PARENT=1")
	driver.Stdout, driver.Stderr = log, log
	if err := driver.Start(); err != nil {
		return err
	}
	go record.Caught(func() {
		for s := range signals {
			if s != syscall.SIGHUP {
				_ = driver.Process.Signal(syscall.SIGTERM)
			}
		}
	})()
	// Space for the exit code is taken now: the disk may be full at the end.
	exit, err := os.Create(d.file("exit.partial"))
	if err == nil {
		_, err = exit.WriteString("    \n")
	}
	if err = errors.Join(err, d.writePid()); err != nil {
		_ = driver.Process.Signal(syscall.SIGTERM)
	}
	_ = driver.Wait() // ProcessState has the result
	code := proc.ExitCode(driver.ProcessState)
	if code == crashed {
		code = d.tellCrash()
	}
	_, writeErr := exit.WriteAt(fmt.Appendf(nil, "%-4d\n", code), 0)
	return errors.Join(err, writeErr, exit.Close(), os.Rename(d.file("exit.partial"), d.file("exit")))
}

// crashed is the exit code of a driver that Go has ended (128 + SIGABRT): its stack is in the log.
const crashed = 134

// tellCrash writes the event that the driver could not write, and returns the exit code.
func (d *Detached) tellCrash() int {
	fields := record.Fields{"run": filepath.Base(d.runDir), "status": record.Failed, "code": record.ExitDefect}
	where := ""
	if partial := matching(d.raw, "[0-9][0-9]*[0-9].partial"); len(partial) > 0 {
		fields["block"], _ = strconv.Atoi(strings.TrimSuffix(filepath.Base(partial[0]), ".partial"))
		where = fmt.Sprintf(" in block %d", fields["block"])
	}
	fields["message"] = fmt.Sprintf("a defect of tsduel%s: the driver has crashed; its stack is in %s", where,
		d.file("log"))
	record.NewEvents(d.runDir, d.raw, true).Emit("run-end", fields)
	return record.ExitDefect
}

// State is `none`, `running PID`, `ended CODE` or `lost` (neither a process nor an exit code), then a line
// `block BBB` for each finished block.
func (d *Detached) State() string {
	state := "none"
	text, _ := os.ReadFile(d.file("exit"))
	if pid := d.pid(); pid != 0 {
		state = fmt.Sprintf("running %d", pid)
	} else if code, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		state = fmt.Sprintf("ended %d", code)
	} else if exists(d.file("pid")) {
		state = "lost"
	}
	for _, dir := range blockDirs(d.raw) {
		state += "\nblock " + filepath.Base(dir)
	}
	return state
}

// Follow becomes `tail`, which prints raw/HOST/events.jsonl from a line on until the blocks have ended.
func (d *Detached) Follow(line string) error {
	tail, err := exec.LookPath("tail")
	if err != nil {
		return err
	}
	text, _ := os.ReadFile(d.file("pid"))
	pid, _, _ := strings.Cut(string(text), " ")
	return unix.Exec(tail, []string{"tail", "-n", "+" + line, "-f", "--pid=" + pid, "--",
		filepath.Join(d.raw, "events.jsonl")}, os.Environ())
}

// Sums writes the sha256 of every complete file in raw/, in the format of sha256sum.
func (d *Detached) Sums(w io.Writer) error {
	var paths []string
	raw := filepath.Dir(d.raw)
	err := filepath.WalkDir(raw, func(path string, entry fs.DirEntry, err error) error {
		switch partial := strings.HasSuffix(path, ".partial"); {
		case err != nil:
			return err
		case partial && entry.IsDir():
			return fs.SkipDir
		case !partial && entry.Type().IsRegular():
			paths = append(paths, path)
		}
		return nil
	})
	sums, unread := machine.Sums(paths)
	err = errors.Join(err, unread)
	for _, path := range paths {
		if sums[path] == "" {
			err = errors.Join(err, fmt.Errorf("%s cannot be read", path))
		} else {
			fmt.Fprintf(w, "%s  .%s\n", sums[path], strings.TrimPrefix(path, raw))
		}
	}
	return err
}

// Collected forgets the exit code, once the user's machine has it.
func (d *Detached) Collected() error {
	for _, name := range []string{"exit", "pid"} {
		if err := os.Remove(d.file(name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// Stop lets the run end after the block that is running, or, the second time, ends it at once with all its
// processes. It returns what it did, as the function Stop does.
func (d *Detached) Stop(ctx context.Context) (outcome string, err error) {
	outcome = "stopped"
	if pid := d.pid(); pid != 0 {
		if outcome, err = Stop(d.runDir, d.share[0], pid); err != nil || strings.HasPrefix(outcome, "after") {
			return outcome, err
		}
		if d.pid() == pid {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	d.awaitOrphan(stopPatience)
	// A killed driver leaves processes. Whoever has the lock of the cache may end them.
	lock, err := lockCache(ctx, d.cache, "", 0)
	if err != nil {
		return outcome, nil
	}
	defer lock.Close()
	_, err = proc.EndStrays(filepath.Join(d.cache, "scratch"))
	return outcome, err
}

// awaitOrphan waits for a driver whose parent was killed: the kernel has sent it SIGTERM, and it ends its block.
func (d *Detached) awaitOrphan(patience time.Duration) {
	waitUntil(patience, func() bool {
		h, running := holderOf(lockPath())
		return !running || h.dir != d.runDir
	})
}

// Stop asks the driver of a run to stop after the block that is running; the second time, or between blocks,
// it ends the driver. It returns what it did: `after block N`, `stopped` or `still there`.
func Stop(runDir, host string, pid int) (outcome string, err error) {
	ticks, running := began(pid)
	raw := record.RawDir(runDir, host)
	partial := matching(raw, "[0-9][0-9]*[0-9].partial")
	if running && !exists(stopFile(runDir)) && len(partial) > 0 {
		if err := os.WriteFile(stopFile(runDir), nil, 0o644); err != nil {
			return "", err
		}
		block, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(partial[0]), ".partial"))
		record.NewEvents(runDir, raw, true).Emit("stop-requested", record.Fields{"block": block})
		return fmt.Sprintf("after block %d", block), nil
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	ended := waitUntil(stopPatience, func() bool {
		now, running := began(pid)
		return !running || now != ticks
	})
	if !ended {
		return "still there", nil
	}
	return "stopped", nil
}

// pid returns that of the process that runs the blocks, 0 if there is none.
func (d *Detached) pid() (pid int) {
	var ticks, boot string
	text, _ := os.ReadFile(d.file("pid"))
	if n, _ := fmt.Sscan(string(text), &pid, &ticks, &boot); n != 3 || !isProcess(pid, ticks, boot) {
		return 0
	}
	return pid
}

// writePid says that this process runs the blocks.
func (d *Detached) writePid() error {
	ticks, _ := began(os.Getpid())
	return record.WriteFile(d.file("pid"), fmt.Appendf(nil, "%d %s %s\n", os.Getpid(), ticks, noise.BootID()))
}

func (d *Detached) file(name string) string { return filepath.Join(d.control, name) }
