// Package proc starts, counts and ends the processes of a run on this machine.
package proc

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Mark is the variable that every process of ours has in its environment, by which a later run finds what a killed one left.
const Mark = "TSDUEL_SCRATCH"

// EndPatience bounds every wait for a process that was killed: one that waits for a dead disk never goes. Tests have less.
var EndPatience = 10 * time.Second

// Command says what to start. A nil Stdin, Stdout or Stderr is /dev/null.
type Command struct {
	Argv                  []string
	Env                   []string // laid over our own environment
	Dir, Scratch          string   // Scratch: the value of Mark
	Stdin, Stdout, Stderr *os.File
	CPUs                  []int // it may run on; none: on all that we may
}

// Process is one that Start has started, the leader of a session of its own.
type Process struct {
	Pid   int
	name  string
	ended chan struct{}
	exit  Exit
}

// Exit is how a process ended: its code (128 + the number of a signal that ended it), the CPU time of it and of its
// children that it waited for, and when that was.
type Exit struct {
	Code         int
	User, System time.Duration
	At           time.Time
}

var (
	children sync.Map // pid -> *Process, of those that have not ended
	// A child gets its parent's death signal when the parent's *thread* dies, and that thread's affinity.
	starter = sync.OnceValue(func() chan func() {
		work := make(chan func())
		go func() {
			runtime.LockOSThread()
			for f := range work {
				f()
			}
		}()
		return work
	})
)

// Start starts a command in our group, which dies with us. What it starts itself dies with its Kill, or with EndAll.
func Start(c Command) (*Process, error) {
	cmd := &exec.Cmd{
		Path: c.Argv[0], Args: c.Argv, Dir: c.Dir, Env: append(append(os.Environ(), c.Env...), Mark+"="+c.Scratch),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	// Not assigned as they are: a nil *os.File is no nil interface.
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	done := make(chan error)
	starter() <- func() { done <- startHere(cmd, c) }
	if err := <-done; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	p := &Process{Pid: cmd.Process.Pid, name: filepath.Base(c.Argv[0]), ended: make(chan struct{})}
	children.Store(p.Pid, p)
	go func() {
		_ = cmd.Wait() // its state says it all
		state := cmd.ProcessState
		p.exit = Exit{state.ExitCode(), state.UserTime(), state.SystemTime(), time.Now()}
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.exit.Code = 128 + int(status.Signal())
		}
		children.Delete(p.Pid)
		close(p.ended)
	}()
	return p, nil
}

func startHere(cmd *exec.Cmd, c Command) error {
	if len(c.CPUs) > 0 {
		var before unix.CPUSet
		if err := unix.SchedGetaffinity(0, &before); err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(0, setOf(c.CPUs)); err != nil {
			return fmt.Errorf("pin it to CPUs %v: %w", c.CPUs, err)
		}
		defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	}
	return Ours().start(cmd)
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Alive says whether it still runs.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Wait returns how the process ended, or an error when ctx ends first.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.ended:
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	}
}

// Kill ends the process with its session at once. It waits at most EndPatience: the error says why it is still there.
func (p *Process) Kill() error {
	// Also after it has ended: its session may hold what it had started.
	_ = unix.Kill(-p.Pid, unix.SIGKILL)
	select {
	case <-p.ended:
		return nil
	case <-time.After(EndPatience):
		return stuck(p.Pid, p.name)
	}
}

func stuck(pid int, name string) error {
	state := "?"
	if s, err := Stat(pid); err == nil {
		state, name = s.State, cmp.Or(s.Comm, name)
	}
	if state == "D" {
		return fmt.Errorf("process %d (%s) was killed and is still there after %v, waiting for a disk or the kernel (state D): see dmesg", pid, name, EndPatience)
	}
	return fmt.Errorf("process %d (%s) was killed and is still there after %v (state %s)", pid, name, EndPatience, state)
}

// Subreaper makes what our children leave behind ours, so that nothing can hide from EndAll.
func Subreaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// EndAll ends every process that we have started, with all that those have started, and collects orphans.
func EndAll() error {
	var first error
	children.Range(func(_, value any) bool {
		if err := value.(*Process).Kill(); err != nil && first == nil {
			first = err
		}
		return true
	})
	if err := Ours().kill(); err != nil && first == nil {
		first = err
	}
	// Killing an orphan makes its children ours in turn.
	for deadline := time.Now().Add(EndPatience); ; time.Sleep(5 * time.Millisecond) {
		orphans := orphans()
		if len(orphans) == 0 {
			return first
		}
		for _, o := range orphans {
			_ = unix.Kill(o.PID, unix.SIGKILL)
			_, _ = unix.Wait4(o.PID, nil, unix.WNOHANG, nil)
		}
		if time.Now().After(deadline) {
			return cmp.Or(first, stuck(orphans[0].PID, orphans[0].Comm))
		}
	}
}

func orphans() (found []procfs.ProcStat) {
	for _, s := range Processes() {
		if s.PPID == os.Getpid() {
			if _, ours := children.Load(s.PID); !ours {
				found = append(found, s)
			}
		}
	}
	return found
}
