// Package machine is where the components of a block run: this machine, or others that are lent to the driver of a run.
package machine

import (
	"net/netip"
	"time"

	"tsduel/host/openloop"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// Machine starts, watches and counts components. Paths mean the same on every host of a run. Its methods have the form of
// net/rpc, so that what another machine is asked is what this one does, and nothing else.
type Machine interface {
	FreePort(Ports, *int) error                                // the first one that nobody listens on
	Start(Command, *int) error                                 // the pid
	Await(pid int, exit *proc.Exit) error                      // until it has ended
	Kill(pid int, _ *None) error                               // with its session
	Run(Command, *Said) error                                  // to its end
	Listeners(session int, at *map[int][]netip.AddrPort) error // of each of its processes
	CPU(pid int, used *time.Duration) error                    // so far
	Counters(pid int, c *proc.Counters) error                  // so far
	Look(pids []int, edge *int) error                          // an edge of the machine's own counters, with servers of these pids
	Since(Span, *record.Noise) error                           // from that edge to now
	Canary(dir string, c *record.Canary) error                 // with writes to this directory
	Prepare(Directories, *None) error                          //
	Copy(Pair, *None) error                                    // a tree
	ReadOnce(Reading, *int64) error                            // bytes
	Log(Piece, *[]byte) error                                  // what was said since
	Sync(dir string, _ *None) error                            // its disk
	DropCaches(dir string, _ *None) error                      // which is root's right alone
	OOMKills(_ None, count *float64) error                     // of the machine so far
	Disk(scratch string, d *Disk) error                        // with the databases that lie there
	Describe(dir string, facts *record.Facts) error            //
	Sums(paths []string, sha256 *map[string]string) error      // "" of what is not there
	Workload(_ None, made *record.Workload) error              // the files of the run, made where they are missing
	Prime(openloop.Asked, *int) error                          // a client, until it is ready to send: its number
	Loop(Instant, *Looped) error                               // it sends from that instant on, to its end
	Hold(Held, *int) error                                     // a client's command, started and stopped before it does anything: its pid
	LetGo(Instant, *Ran) error                                 // it goes on at that instant, to its end
}

type (
	// None is nothing.
	None struct{}
	// Ports are to be looked for from one on; Given are those of components that may not listen yet.
	Ports struct {
		From  int
		Given map[int]bool
	}
	// Command is a verb of an adapter. Without Files it begins in Dir as that is, else Dir is made of them anew.
	Command struct {
		Argv, Env []string
		Dir       string
		Files     map[string]string
		Make      []string // directories that it needs
		Scratch   string
		CPUs      []int
		Log       string        // takes what it says, at its end
		Patience  time.Duration // of Run
	}
	// Said is how a command of Run ended. Late: it did not in time, and was killed.
	Said struct {
		Code     int
		Out, Err []byte
		Late     bool
	}
	// Span is from an edge until now.
	Span struct {
		Edge int
		Pids []int
	}
	// Directories are wiped if they are marked as ours (Wipe), removed with all that is in them (Remove), then made.
	Directories struct{ Wipe, Remove, Make []string }
	// Disk is that of a scratch directory, in bytes: what is free, and what the databases there take, which a block wipes.
	Disk struct {
		Free, Data int64
		Full       bool
	}
	// Pair is where from and where to.
	Pair struct{ From, To string }
	// Reading is of every file below a directory; Drop has the kernel forget them instead.
	Reading struct {
		Dir  string
		Drop bool
	}
	// Held is a client's command; what it says and complains of goes into files, and Feed, where it is packed data, unpacked into its stdin.
	Held struct {
		Command
		Feed, Out, Complaints string
	}
	// Ran is how it ended, and when it said its first word, in ns since the epoch by its own machine's clock; CPUs is how many it may use.
	Ran struct {
		Exit  proc.Exit
		Began int64
		CPUs  int
	}
	// Instant is when a client (its number, or its pid) begins, in ns since the epoch by its own machine's clock.
	Instant struct {
		Client int
		At     int64
	}
	// Looped is what a client gave, and when it really began; CPUs is how many it may use.
	Looped struct {
		Results            []*openloop.Result
		Elapsed, ClientCPU time.Duration
		Began              int64
		CPUs               int
	}
	// Piece is a file from an offset on.
	Piece struct {
		Path string
		From int64
	}
)

// Process is a component that was started on a machine.
type Process struct {
	Pid   int
	of    Machine
	ended chan struct{}
}

// Start starts a component, and knows when it has ended. One on a machine that is lost is never known to have.
func Start(m Machine, c Command) (*Process, error) {
	p := &Process{of: m, ended: make(chan struct{})}
	if err := m.Start(c, &p.Pid); err != nil {
		return nil, err
	}
	go func() {
		if m.Await(p.Pid, new(proc.Exit)) == nil {
			close(p.ended)
		}
	}()
	return p, nil
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

// Kill ends it with its session at once.
func (p *Process) Kill() error { return p.of.Kill(p.Pid, &None{}) }
