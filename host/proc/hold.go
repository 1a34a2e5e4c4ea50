package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The means by which processes are held. v1's freezer is none of them: what it has frozen does not even die when
// this program does (docs/decisions/20261125-turns.md).
const (
	ByGroup   = "control groups v2"
	BySignals = "signals"
)

// HoldPatience bounds the wait until a process stands still: it may wait for a disk. Tests set less.
var HoldPatience = 5 * time.Second

// Late is why a process did not stand still in time.
type Late struct{ error }

// HeldBy is the means by which the process is held.
func (p *Process) HeldBy() string {
	if _, frozen := p.holder.(*freezer); frozen {
		return ByGroup
	}
	return BySignals
}

// Hold makes the process, and all that it has started, stand still. It returns when they do, or when the process has
// ended. After an error they go on.
func (p *Process) Hold() error {
	if err := p.holder.hold(); err != nil && !p.HasEnded() {
		return fmt.Errorf("hold %s (pid %d) by %s: %w", p.name, p.Pid, p.HeldBy(), err)
	}
	for begin, looks := time.Now(), 0; !p.holder.held() && !p.HasEnded(); looks++ {
		if time.Since(begin) > HoldPatience {
			late := fmt.Errorf("%s (pid %d) did not stand still within %v by %s", p.name, p.Pid, HoldPatience, p.HeldBy())
			return Late{errors.Join(late, p.Release())}
		}
		if looks > 100 { // it may need this CPU, or wait for a disk
			time.Sleep(50 * time.Microsecond)
		}
	}
	return nil
}

// Release lets the process, and all that it has started, go on.
func (p *Process) Release() error {
	if err := p.holder.release(); err != nil && !p.HasEnded() {
		return fmt.Errorf("let %s (pid %d) go on by %s: %w", p.name, p.Pid, p.HeldBy(), err)
	}
	return nil
}

// freezer holds the processes of a group of cgroup v2 by its files.
type freezer struct{ freeze, events *os.File }

// newHolder returns the best means that there is for a process which was just started.
func newHolder(p *Process) holder {
	if p.group != nil && p.group.Kind == "v2" {
		freeze, missing := os.OpenFile(filepath.Join(p.group.dir, "cgroup.freeze"), os.O_WRONLY, 0)
		events, none := os.Open(filepath.Join(p.group.dir, "cgroup.events"))
		f := &freezer{freeze, events}
		if cmp.Or(missing, none) == nil {
			return f
		}
		f.close()
	}
	return &stopper{process: p}
}

func (f *freezer) write(text string) error {
	_, err := f.freeze.WriteAt([]byte(text), 0)
	return err
}

func (f *freezer) hold() error    { return f.write("1") }
func (f *freezer) release() error { return f.write("0") }

func (f *freezer) held() bool {
	text := make([]byte, 128)
	n, _ := f.events.ReadAt(text, 0)
	return bytes.Contains(text[:n], []byte("frozen 1"))
}

func (f *freezer) close() {
	f.freeze.Close() // a nil file has nothing to close
	f.events.Close()
}

// relist is how long a list of processes is used: to list them takes longer than a turn.
const relist = time.Second

// stopper holds a process, and what it has started, by signals.
type stopper struct {
	process *Process
	pids    []int
	listed  time.Time
}

func (s *stopper) hold() error {
	if time.Since(s.listed) > relist {
		s.pids, s.listed = append(s.process.descendants(), s.process.Pid), time.Now()
	}
	return s.signal(unix.SIGSTOP)
}

func (s *stopper) release() error { return s.signal(unix.SIGCONT) }

func (s *stopper) signal(signal unix.Signal) (err error) {
	for _, pid := range s.pids {
		if failed := unix.Kill(pid, signal); failed != nil && failed != unix.ESRCH {
			err = cmp.Or(err, error(failed))
		}
	}
	return err
}

// held says that /proc gives T (stopped) for each, or that it is gone.
func (s *stopper) held() bool {
	return !slices.ContainsFunc(s.pids, func(pid int) bool {
		text, err := os.ReadFile(procPath(strconv.Itoa(pid) + "/stat"))
		// The name before the state is in brackets, and may have brackets.
		at := bytes.LastIndexByte(text, ')')
		return err == nil && at > 0 && at+2 < len(text) && !bytes.ContainsRune([]byte("TtZX"), rune(text[at+2]))
	})
}

func (s *stopper) close() {}
