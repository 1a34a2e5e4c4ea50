// Package proc starts, counts and ends the processes of a run on this machine.
package proc

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/record"
)

// Mark is an environment variable of every process. By it a run finds the leftovers of a killed run.
const Mark = "TSDUEL_SCRATCH"

// Command says what to start. A nil Stdin, Stdout or Stderr is /dev/null.
type Command struct {
	Argv                  []string
	Env                   []string // NAME=VALUE, over those of Environment
	Dir, Scratch          string   // Scratch is the value of Mark
	Stdin, Stdout, Stderr *os.File
	Limits                Limits
	CPUs                  []int  // it may run on these; empty: all that this process may run on
	Log                   string // the file that Stdout or Stderr appends to, which is watched; empty: none
}

// One thread starts all processes: a child has its affinity, and dies (Pdeathsig) when the thread ends.
var starter = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() { // a start that panics could not be waited for
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// inherited are the variables that processes have from this one; FAKE_ and TSDUEL_ are for tests.
var inherited = regexp.MustCompile(`^(PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|TSDUEL_PROC|TSDUEL_SYS|LC_.*|FAKE_.*)$`)

// Environment returns the variables of this process that every process inherits. The others stay out: they
// would change what is measured whenever another user starts a run.
func Environment() map[string]string {
	environment := map[string]string{}
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); inherited.MatchString(name) {
			environment[name] = value
		}
	}
	return environment
}

// Start starts a command in the Group. It dies with this program; its children die by Kill, or by EndAll.
func Start(c Command) (*Process, error) {
	var env []string
	for name, value := range Environment() {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	cmd := &exec.Cmd{
		Path: c.Argv[0], Args: c.Argv, Dir: c.Dir, Env: append(append(env, c.Env...), Mark+"="+c.Scratch),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	// A nil *os.File in an interface would not be nil.
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	p := &Process{name: filepath.Base(c.Argv[0]), ended: make(chan struct{})}
	done := make(chan error)
	starter() <- func() { done <- p.startHere(cmd, c) }
	if err := <-done; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	p.Pid = cmd.Process.Pid
	means := newHolder(p)
	p.holder = means
	children.Store(p.Pid, p)
	endLog := p.watchLog(c.Log)
	go record.Caught(func() {
		_ = cmd.Wait() // ProcessState has the exit code
		state := cmd.ProcessState
		p.exit = Exit{ExitCode(state), state.UserTime(), state.SystemTime(), time.Now()}
		children.Delete(p.Pid)
		means.close()
		endLog()
		p.limited.end()
		if p.group != nil {
			_ = os.Remove(p.group.dir) // unless it has left processes there
		}
		close(p.ended)
	})()
	return p, nil
}

// ExitCode is that of a shell: 128 + the number of the signal that ended a process.
func ExitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

func (p *Process) startHere(cmd *exec.Cmd, c Command) (err error) {
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
	if p.group, err = Ours().start(cmd); err != nil {
		return err
	}
	if err = p.limited.hold(c.Limits, cmd.Process.Pid, p.group); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		p.limited.remove()
	}
	return err
}

// Kill kills the process and all that it has started, also in other sessions, and also if it has ended. It
// waits EndPatience at most; the error says what is still there. Without a group of its own it does not find
// other sessions of a process that has ended.
func (p *Process) Kill() error {
	started := p.started()
	_ = started() // remembers them: orphans have another parent
	_ = unix.Kill(-p.Pid, unix.SIGKILL)
	select {
	case <-p.ended:
	case <-time.After(EndPatience):
		return stuck(p.name, p.Pid)
	}
	defer p.limited.remove()
	if p.group != nil {
		err := p.group.kill()
		_ = os.Remove(p.group.dir)
		return err
	}
	_, left := killAll(started)
	return stuck("?", left...)
}

// Subreaper makes this process the parent of orphans of its children, so that EndAll finds them.
func Subreaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// EndAll ends the processes that this program has started, with all that those have started.
func EndAll() (err error) {
	children.Range(func(_, process any) bool {
		err = cmp.Or(err, process.(*Process).Kill())
		return true
	})
	err = cmp.Or(err, Ours().kill())
	_, left := killAll(func() (orphans []int) {
		for _, s := range Processes() {
			if _, known := children.Load(s.PID); s.PPID == os.Getpid() && !known {
				orphans = append(orphans, s.PID)
				_, _ = unix.Wait4(s.PID, nil, unix.WNOHANG, nil) // collects it if it has ended
			}
		}
		return orphans
	})
	return cmp.Or(err, stuck("?", left...))
}

// EndStrays ends the processes that an interrupted run has left in a scratch directory, and counts them.
func EndStrays(scratch string) (count int, err error) {
	count, left := killAll(func() []int { return marked(scratch) })
	return count, stuck("?", left...)
}

func marked(scratch string) (pids []int) {
	mark := []byte("\x00" + Mark + "=" + scratch + "\x00")
	for _, s := range Processes() {
		text, err := os.ReadFile(procPath(strconv.Itoa(s.PID) + "/environ"))
		if err == nil && s.PID != os.Getpid() && bytes.Contains(append([]byte{0}, text...), mark) {
			pids = append(pids, s.PID)
		}
	}
	return pids
}
