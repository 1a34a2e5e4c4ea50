// Package run drives all blocks of a run: it runs them in order, goes on after an interruption, replaces
// spoilt blocks, and ends the run in every case.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// One run at a time measures on a machine, for all users and caches. The lock is the kernel's (flock), which
// frees it when the process ends in any way. The text in the file is for people. It is believed only while
// the process that it names exists, in this boot. tsduel/places/lock.py reads it, too.
//
// All users may write to /run/lock and /tmp, and a kernel may refuse O_CREAT for a file of another user there
// (fs.protected_regular). So the file is created once, and then opened without O_CREAT.

const (
	lockPatience = 10 * time.Second
	// carefully follows no link and waits for no pipe: others may put them in the lock's place.
	carefully = unix.O_NOFOLLOW | unix.O_NONBLOCK
)

func lockPath() string {
	if path := os.Getenv("TSDUEL_LOCK"); path != "" { // of a test: tests must not wait for each other
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

var holderLine = regexp.MustCompile(
	`^pid ([0-9]+), began ([0-9]+), boot ([0-9a-f-]+), user ([^,]*), since ([0-9TZ:-]+), ([^\n]*)`)

// holderOf returns the process that a lock's text names, and whether it still exists.
func holderOf(path string) (holder, bool) {
	var text []byte
	if f, err := os.OpenFile(path, os.O_RDONLY|carefully, 0); err == nil {
		text, _ = io.ReadAll(f)
		f.Close()
	}
	m := holderLine.FindStringSubmatch(string(text))
	if m == nil {
		return holder{}, false
	}
	pid, _ := strconv.Atoi(m[1])
	return holder{pid, m[4], m[5], m[6]}, isProcess(pid, m[2], m[3])
}

// isProcess says whether this process still exists: a later process may have the same pid.
func isProcess(pid int, ticks, boot string) bool {
	began, running := began(pid)
	return running && began == ticks && boot == noise.BootID()
}

// began returns when a process began, in clock ticks since boot, and whether it runs: a zombie does not.
func began(pid int) (ticks string, running bool) {
	stat, err := proc.Stat(pid)
	return strconv.FormatUint(stat.Starttime, 10), err == nil && stat.State != "Z"
}

// lockAll makes the scratch directory of a cache, and takes the locks of the machine and of the cache.
func lockAll(ctx context.Context, runDir, kind, cache string) ([]*os.File, error) {
	if err := record.PrivateDir(filepath.Join(cache, "scratch")); err != nil {
		return nil, err
	}
	machine, err := lockMachine(ctx, runDir, kind)
	if err != nil {
		return nil, err
	}
	private, err := lockCache(ctx, cache, runDir, lockPatience)
	if err != nil {
		machine.Close()
		return nil, err
	}
	return []*os.File{machine, private}, nil
}

func lockMachine(ctx context.Context, runDir, kind string) (*os.File, error) {
	path := lockPath()
	f, err := openLock(path)
	if err != nil {
		return nil, record.UserError("the lock of this machine, %s, cannot be opened: "+
			"see who made it, and remove it (%v)", path, err)
	}
	// Wait if no driver holds it: a look at it takes an instant, and so does the end of a killed driver.
	patience := lockPatience
	if _, known := holderOf(path); known {
		patience = 0
	}
	if err := waitForLock(ctx, f, patience); err != nil {
		f.Close()
		return nil, cmp.Or(ctx.Err(), taken(path, runDir, kind))
	}
	if !isAt(f, path) { // another file was put there meanwhile: whoever comes next would lock that one
		f.Close()
		return lockMachine(ctx, runDir, kind)
	}
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	ticks, _ := began(os.Getpid())
	// The lock works without this text, too: the file may be another user's.
	if f.Truncate(0) == nil {
		fmt.Fprintf(f, "pid %d, began %s, boot %s, user %s, since %s, %s\n",
			os.Getpid(), ticks, noise.BootID(), name, time.Now().UTC().Format(time.RFC3339), runDir)
	}
	return f, nil
}

// openLock opens the file of the lock, and makes it if it is missing. It takes no file that has another name,
// too: others may write to its directory, and we write to the file.
func openLock(path string) (*os.File, error) {
	if _, err := os.Lstat(path); os.IsNotExist(err) {
		old := unix.Umask(0)
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666); err == nil {
			f.Close()
		}
		unix.Umask(old)
	}
	f, err := os.OpenFile(path, os.O_RDWR|carefully, 0)
	if errors.Is(err, os.ErrPermission) {
		f, err = os.OpenFile(path, os.O_RDONLY|carefully, 0)
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it is no plain file")
	}
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink > 1 {
		f.Close()
		return nil, cmp.Or(err, errors.New("it is no plain file"))
	}
	return f, nil
}

func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	current, absent := os.Lstat(path)
	return err == nil && absent == nil && os.SameFile(opened, current)
}

// lockCache takes the lock of a cache: its holder may end all processes that use its scratch directory.
func lockCache(ctx context.Context, cache, runDir string, patience time.Duration) (*os.File, error) {
	path := filepath.Join(cache, "run.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|carefully, 0o600)
	if err != nil {
		return nil, record.UserError("the cache cannot be written to: %v", err)
	}
	if err := waitForLock(ctx, f, patience); err != nil {
		text, _ := os.ReadFile(path)
		f.Close()
		return nil, cmp.Or(ctx.Err(), record.UserError("another run is going on with this cache: %s; "+
			"wait for it, or stop it with kill", strings.TrimSpace(string(text))))
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
		if err := record.Sleep(ctx, 50*time.Millisecond); err != nil { // flock has no time limit
			return err
		}
	}
}

// taken says why a run cannot go on now, and what to do.
func taken(path, runDir, kind string) error {
	run := filepath.Base(runDir)
	again := fmt.Sprintf(", then: make %s RUN=%s", kind, run)
	h, known := holderOf(path)
	if !known {
		return record.UserError("another run is going on on this machine, and its name is not known; wait for it%s", again)
	}
	process := fmt.Sprintf("pid %d of user %s, since %s", h.pid, h.user, h.since)
	if h.dir == runDir {
		return record.UserError("this run is going on already: %s; look at it with 'make status RUN=%s', "+
			"end it with 'make stop RUN=%s'", process, run, run)
	}
	return record.UserError("another run is going on on this machine: %s, %s; wait for it, "+
		"or end it with 'make stop RUN=%s' there%s", process, h.dir, filepath.Base(h.dir), again)
}
