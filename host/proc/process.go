package proc

import (
	"context"
	"slices"
	"time"
)

// Process was started by Start; it leads a session of its own.
type Process struct {
	Pid  int
	name string
	limited
	group *Group // nil: what it starts is found by its descent
	holder
	ended chan struct{}
	exit  Exit
}

// Exit is the end of a process: its exit code (128 + the number of the signal that ended it), its CPU time
// with that of the children that it waited for, and the time.
type Exit struct {
	Code         int
	User, System time.Duration
	At           time.Time
}

// holder makes the processes of one Process stand still, and lets them go on.
type holder interface {
	hold() error
	held() bool // all stand still
	release() error
	close()
}

func (p *Process) Ended() <-chan struct{} { return p.ended }

// Exit is that of a process that has ended.
func (p *Process) Exit() Exit { return p.exit }

// Wait returns the Exit, or an error when ctx ends first.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.ended:
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	}
}

func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// CPU is the CPU time of the process with what it has started; without a control group, of what is still there.
func (p *Process) CPU() (sum time.Duration) {
	if p.group != nil {
		if cpu, err := p.group.cpu(); err == nil {
			return cpu
		}
	}
	for _, pid := range append(p.descendants(), p.Pid) {
		cpu, _ := CPU(pid) // on an error it has ended
		sum += cpu
	}
	return sum
}

// descendants are what the process has started, without itself.
func (p *Process) descendants() (pids []int) {
	if p.group == nil {
		return p.started()()
	}
	return slices.DeleteFunc(p.group.pids(), func(pid int) bool { return pid == p.Pid })
}

// started returns a function that lists what the process has started and what is in its session: more at each
// call, without what has ended.
func (p *Process) started() func() []int {
	if p.group != nil {
		return func() []int { return nil }
	}
	since := map[int]uint64{} // pid -> its start, of those that were seen
	return func() (pids []int) {
		_, running := children.Load(p.Pid)
		all := Processes()
		for more := true; more; {
			more = false
			for _, s := range all {
				_, known := since[s.PID]
				_, descends := since[s.PPID]
				if !known && s.PID != p.Pid && (descends || s.Session == p.Pid || running && s.PPID == p.Pid) {
					since[s.PID], more = s.Starttime, true
				}
			}
		}
		for _, s := range all {
			if began, known := since[s.PID]; known && began == s.Starttime {
				pids = append(pids, s.PID)
			}
		}
		return collected(pids)
	}
}
