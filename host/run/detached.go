package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"

	"golang.org/x/sys/unix"
)

// Detached is a run whether or not somebody watches. What it says of itself is in RUN_DIR/control: pid (and when that process began,
// in which boot), exit (the code, once it has ended) and log.
type Detached struct {
	runDir, cache, control string
	who                    []string // as `tsduel-host run` takes it, see Who
}

// NewDetached of a run in a cache; who is for what starts its blocks.
func NewDetached(runDir, cache string, who ...string) (*Detached, error) {
	runDir, err := filepath.Abs(runDir)
	if err != nil {
		return nil, err
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return nil, err
	}
	d := &Detached{runDir, cache, filepath.Join(runDir, "control"), who}
	for _, dir := range []string{d.control, filepath.Join(runDir, "raw")} {
		// A run that is not there is none of which to say anything.
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return nil, record.UserError("%s is no run: %v", runDir, err)
		}
	}
	return d, record.PrivateDir(cache)
}

// Start starts the blocks unless they run.
func (d *Detached) Start() error {
	unlock, err := d.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	if d.pid() != 0 {
		return nil
	}
	if err := d.Collected(); err != nil {
		return err
	}
	events := filepath.Join(d.runDir, "raw", "events.jsonl")
	for _, path := range []string{events, filepath.Join(d.runDir, "run.log")} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		f.Close()
	}
	// Before anybody follows it.
	if err := mendEvents(events, func(string) {}); err != nil {
		return err
	}
	if err := d.launch("rounds"); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(d.file("pid")); err == nil {
			break
		}
	}
	return nil
}

// exclusive keeps others from starting the same.
func (d *Detached) exclusive() (unlock func(), err error) {
	lock, err := os.OpenFile(filepath.Join(d.control, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, unix.Flock(int(lock.Fd()), unix.LOCK_EX)
}

// systemd is there where this is; tests have one of their own.
var systemd = "/run/systemd/system"

// launch makes `detached` with a verb a unit of its own where there is systemd, a session of its own elsewhere: neither ends with the connection.
func (d *Detached) launch(verb string) error {
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
	blocks := append([]string{program, "detached", verb, d.runDir, d.cache}, d.who...)
	root := []string{}
	if os.Geteuid() != 0 {
		root = []string{"sudo", "-n"}
	}
	if command(append(root, "true")...).Run() == nil {
		plan, err := record.LoadPlan(d.runDir)
		// Every run finds the disk and the page cache alike; a machine that is somebody's own only where that was asked for. A container
		// may not; what was done is in the log.
		rented := err == nil && plan.Place.Kind == "gcp"
		if rented || (err == nil && plan.Host.DropCaches) {
			if rented {
				_ = command(append(root, "fstrim", "-v", "--", d.cache)...).Run()
			}
			unix.Sync()
			_ = command(append(root, "sysctl", "-q", "vm.drop_caches=3")...).Run()
		}
		if _, err := os.Stat(systemd); err == nil {
			// Were the unit stopped when the kernel kills a server for its memory, a failed block would be an interrupted run.
			// On a rented machine our user has sudo, and what is measured is somebody's candidate: nothing in the unit can use it.
			unit := append(root, "systemd-run", "--quiet", "--collect", "--unit=tsduel-"+strings.TrimPrefix(verb+"-", "rounds-")+filepath.Base(d.runDir),
				fmt.Sprintf("--uid=%d", os.Getuid()), fmt.Sprintf("--gid=%d", os.Getgid()),
				"--property=KillMode=mixed", "--property=TimeoutStopSec=120", "--property=OOMPolicy=continue",
				fmt.Sprintf("--property=NoNewPrivileges=%t", rented && !plan.Host.DropCaches), "--")
			return command(append(unit, blocks...)...).Run()
		}
	}
	c := command(blocks...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Start()
}

func (d *Detached) programAndLog() (program string, log *os.File, err error) {
	if program, err = os.Executable(); err == nil {
		log, err = os.OpenFile(d.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	return program, log, err
}

// Rounds runs the blocks here: what Start starts. A signal ends the driver, not us: we say how it ended.
func (d *Detached) Rounds() error {
	program, log, err := d.programAndLog()
	if err != nil {
		return err
	}
	defer log.Close()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	driver := exec.Command(program, append([]string{"run", d.runDir}, d.who...)...)
	driver.Env = append(os.Environ(), "TSDUEL_CACHE="+d.cache, "TSDUEL_DIE_WITH_PARENT=1")
	driver.Stdout, driver.Stderr = log, log
	if err := driver.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGHUP {
				_ = driver.Process.Signal(syscall.SIGTERM)
			}
		}
	}()
	ticks, _ := began(os.Getpid())
	// Room for the last word, which a disk that has become full must not keep back.
	last, err := os.Create(d.file("exit.partial"))
	if err == nil {
		_, err = last.WriteString("    \n")
	}
	err = errors.Join(err, record.WriteFile(d.file("pid"), fmt.Appendf(nil, "%d %s %s\n", os.Getpid(), ticks, noise.BootID())))
	if err != nil {
		_ = driver.Process.Signal(syscall.SIGTERM)
	}
	_ = driver.Wait() // its state says it all
	code := driver.ProcessState.ExitCode()
	if status, ok := driver.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	_, writeErr := last.WriteAt(fmt.Appendf(nil, "%-4d\n", code), 0)
	return errors.Join(err, writeErr, last.Close(), os.Rename(d.file("exit.partial"), d.file("exit")))
}

// State is `none`, `running PID`, `ended CODE` or `lost` (neither a process nor an exit code), then `block BBB` of each that is finished.
func (d *Detached) State() string {
	said := "none"
	text, _ := os.ReadFile(d.file("exit"))
	_, noPid := os.Stat(d.file("pid"))
	if pid := d.pid(); pid != 0 {
		said = fmt.Sprintf("running %d", pid)
	} else if code, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		said = fmt.Sprintf("ended %d", code)
	} else if noPid == nil {
		said = "lost"
	}
	for _, dir := range blockDirs(d.runDir) {
		said += "\nblock " + filepath.Base(dir)
	}
	return said
}

// Follow becomes `tail`, which prints raw/events.jsonl from a line on until the blocks have ended.
func (d *Detached) Follow(line string) error {
	tail, err := exec.LookPath("tail")
	if err != nil {
		return err
	}
	text, _ := os.ReadFile(d.file("pid"))
	pid, _, _ := strings.Cut(string(text), " ")
	return unix.Exec(tail, []string{"tail", "-n", "+" + line, "-f", "--pid=" + pid, "--", filepath.Join(d.runDir, "raw", "events.jsonl")}, os.Environ())
}

// Sums writes the sha256 of every file in raw/ that is whole, as sha256sum does.
func (d *Detached) Sums(w io.Writer) error {
	raw := os.DirFS(filepath.Join(d.runDir, "raw"))
	return fs.WalkDir(raw, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".partial") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		f, err := raw.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		hash := sha256.New()
		if _, err := io.Copy(hash, f); err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s  ./%s\n", hex.EncodeToString(hash.Sum(nil)), path)
		return err
	})
}

// Collected forgets the exit code: it is known at home.
func (d *Detached) Collected() error {
	for _, name := range []string{"exit", "pid"} {
		if err := os.Remove(d.file(name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// Stop lets the blocks end after the one that is running, or, asked again, at once with all that they started; it returns what was done.
func (d *Detached) Stop(ctx context.Context) (said string, err error) {
	said = "stopped"
	if pid := d.pid(); pid != 0 {
		if said, err = Stop(d.runDir, pid); err != nil || strings.HasPrefix(said, "after") {
			return said, err
		}
		if d.pid() == pid {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	// What a driver that was killed has left; with the lock in our hands it is nobody else's.
	lock, err := lockCache(ctx, d.cache, "", 0)
	if err != nil {
		return said, nil
	}
	defer lock.Close()
	_, err = proc.EndStrays(filepath.Join(d.cache, "scratch"))
	return said, err
}

// pid is that of the process that runs the blocks, 0 if they do not run.
func (d *Detached) pid() (pid int) {
	var ticks, boot string
	text, _ := os.ReadFile(d.file("pid"))
	if n, _ := fmt.Sscan(string(text), &pid, &ticks, &boot); n != 3 || !isProcess(pid, ticks, boot) {
		return 0
	}
	return pid
}

func (d *Detached) file(name string) string { return filepath.Join(d.control, name) }
