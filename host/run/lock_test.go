package run

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"tsduel/host/proc"

	"golang.org/x/sys/unix"
)

// A link that somebody puts in the lock's place, while a run waits for it, is not followed: what it leads to
// keeps its text, and the run says that the lock is no plain file.
func TestALinkInTheLocksPlaceIsNotWrittenThrough(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "lock"), filepath.Join(dir, "victim")
	t.Setenv("TSDUEL_LOCK", path)
	must(t, os.WriteFile(victim, []byte("precious"), 0o644))
	keeps := func() {
		t.Helper()
		text, err := os.ReadFile(victim)
		failIf(t, err != nil || string(text) != "precious", "%q %v", text, err)
	}
	refuses := func(err error) {
		t.Helper()
		if err == nil {
			t.Fatal("it was taken")
		}
		wantIn(t, err.Error(), "the lock of this machine, "+path+", cannot be opened: ", "(it is no plain file)")
		keeps()
	}
	before, err := lockMachine(t.Context(), "/run", "tsbs")
	must(t, err)
	must(t, os.Truncate(path, 0)) // nobody knows who holds it, so the next one waits
	waited := make(chan error)
	go func() {
		_, err := lockMachine(t.Context(), "/run", "tsbs")
		waited <- err
	}()
	f := &fixture{t: t}
	f.waitFor("the second one to open it", func() bool {
		open := 0
		for _, fd := range proc.Glob("/proc/self/fd/*") {
			if target, _ := os.Readlink(fd); target == path {
				open++
			}
		}
		return open == 2
	})
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(victim, link))
	must(t, os.Rename(link, path))
	must(t, before.Close())
	refuses(<-waited)

	must(t, os.Remove(path))
	must(t, os.Link(victim, path))
	_, err = lockMachine(t.Context(), "/run", "tsbs")
	refuses(err)

	must(t, os.Remove(path))
	must(t, unix.Mkfifo(path, 0o666))
	_, err = lockMachine(t.Context(), "/run", "tsbs")
	refuses(err)
	if _, known := holderOf(path); known { // nor does who only looks wait for somebody who writes
		t.Error("a pipe names nobody")
	}

	must(t, os.Symlink(victim, filepath.Join(dir, "run.lock")))
	_, err = lockCache(t.Context(), dir, "/run", 0)
	failIf(t, err == nil, "a link is no lock of a cache")
	keeps()

	// A file that was removed meanwhile is made anew.
	must(t, os.Remove(path))
	taken, err := lockMachine(t.Context(), "/run", "tsbs")
	must(t, err)
	failIf(t, !isAt(taken, path), "what is locked is not what lies there")
	must(t, taken.Close())
}

// Whoever reaches a run through a link waits for the driver that a killed parent has left: the lock has the
// directory's own name.
func TestALinkToARunIsThatRun(t *testing.T) {
	f := newFixture(t, 1, 0)
	f.write()
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Dir(f.dir), link))
	d, err := NewDetached(filepath.Join(link, filepath.Base(f.dir)), f.cache, "host1")
	must(t, err)
	orphan, err := lockMachine(t.Context(), f.dir, "tsbs")
	must(t, err)
	ended := make(chan bool, 2)
	go func() {
		time.Sleep(200 * time.Millisecond)
		ended <- true
		must(t, orphan.Truncate(0))
	}()
	d.awaitOrphan(startPatience)
	ended <- false
	failIf(t, !<-ended, "it did not wait")
	must(t, orphan.Close())
}
