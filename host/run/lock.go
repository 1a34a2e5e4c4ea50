// Package run drives all blocks of a run: their order, what was interrupted, what has to be replaced, and every way to end.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"

	"golang.org/x/sys/unix"
)

// Who measures on this machine: one run at a time, whoever started it and whatever its cache is. The lock is the kernel's
// (flock), which gives it back when the process is gone, however it went. The text in the file is for people, and is
// believed only while the lock is held by the very process that it names, in this boot. /run/lock and /tmp are open to
// every user, and a kernel may refuse to create (O_CREAT) what another user has made there (fs.protected_regular), so the
// file is made at most once, and then opened without creating it. tsduel/rounds/lock.py reads it.

const lockPatience = 10 * time.Second

func lockPath() string {
	if path := os.Getenv("TSDUEL_LOCK"); path != "" { // tests must not wait for each other
		return path
	}
	if info, err := os.Stat("/run/lock"); err == nil && info.Mode()&os.ModeSticky != 0 {
		return "/run/lock/tsduel.lock"
	}
	return "/tmp/tsduel.lock"
}

type holder struct {
	pid              int
	user, since, dir string
}

var holderLine = regexp.MustCompile(`^pid ([0-9]+), began ([0-9]+), boot ([0-9a-f-]+), user ([^,]*), since ([0-9TZ:-]+), ([^\n]*)`)

// holderOf is the process that a lock's text names, if it is there.
func holderOf(path string) (holder, bool) {
	text, _ := os.ReadFile(path)
	m := holderLine.FindStringSubmatch(string(text))
	if m == nil {
		return holder{}, false
	}
	pid, _ := strconv.Atoi(m[1])
	return holder{pid, m[4], m[5], m[6]}, isProcess(pid, m[2], m[3])
}

// isProcess says whether this process is there, and is no later one of the same number.
func isProcess(pid int, ticks, boot string) bool {
	began, running := began(pid)
	return running && began == ticks && boot == noise.BootID()
}

// began is when a process began, in clock ticks since boot: with it a number is one process. False for a zombie.
func began(pid int) (ticks string, running bool) {
	stat, err := proc.Stat(pid)
	return strconv.FormatUint(stat.Starttime, 10), err == nil && stat.State != "Z"
}

// lockMachine returns the lock of this machine, which is given back when we end.
func lockMachine(ctx context.Context, runDir, kind string) (*os.File, error) {
	path := lockPath()
	if _, err := os.Lstat(path); os.IsNotExist(err) {
		old := unix.Umask(0)
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666); err == nil {
			f.Close()
		}
		unix.Umask(old)
	}
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no plain file")
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, record.UserError("%s, by which runs on this machine exclude each other, cannot be opened: see who made it, and remove it (%v)", path, err)
	}
	// One who only looks holds it for an instant, and so does the last child of a driver that was killed.
	patience := lockPatience
	if _, known := holderOf(path); known {
		patience = 0
	}
	if err := waitForLock(ctx, f, patience); err != nil {
		f.Close()
		return nil, cmp.Or(ctx.Err(), taken(path, runDir, kind))
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	ticks, _ := began(os.Getpid())
	// Opened without O_CREATE; without this text the lock is as good.
	if text, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0); err == nil {
		fmt.Fprintf(text, "pid %d, began %s, boot %s, user %s, since %s, %s\n", os.Getpid(), ticks, noise.BootID(), name, time.Now().UTC().Format(time.RFC3339), runDir)
		text.Close()
	}
	return f, nil
}

// lockCache returns the lock of a cache: who has it may end what has its scratch directory in its environment.
func lockCache(ctx context.Context, cache, runDir string, patience time.Duration) (*os.File, error) {
	path := filepath.Join(cache, "run.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, record.UserError("the cache cannot be written to: %v", err)
	}
	if err := waitForLock(ctx, f, patience); err != nil {
		text, _ := os.ReadFile(path)
		f.Close()
		return nil, cmp.Or(ctx.Err(), record.UserError("another run is going on with this cache: %s; wait for it, or stop it with kill", strings.TrimSpace(string(text))))
	}
	if runDir != "" && f.Truncate(0) == nil {
		fmt.Fprintf(f, "pid %d, %s, since %s\n", os.Getpid(), runDir, time.Now().UTC().Format(time.RFC3339))
	}
	return f, nil
}

func waitForLock(ctx context.Context, f *os.File, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		// flock cannot be waited for with a limit.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// taken is why a run cannot go on now, and what to do.
func taken(path, runDir, kind string) error {
	run := filepath.Base(runDir)
	again := fmt.Sprintf(", then: make %s RUN=%s", kind, run)
	h, known := holderOf(path)
	if !known {
		return record.UserError("another run is going on on this machine, and nobody knows which; wait for it%s", again)
	}
	who := fmt.Sprintf("pid %d of user %s, since %s", h.pid, h.user, h.since)
	if h.dir == runDir {
		return record.UserError("this run is going on already: %s; look at it with 'make status RUN=%s', end it with 'make stop RUN=%s'", who, run, run)
	}
	return record.UserError("another run is going on on this machine: %s, %s; wait for it, or end it with 'make stop RUN=%s' there%s", who, h.dir, filepath.Base(h.dir), again)
}
