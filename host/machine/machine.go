// Package machine runs the components of a block, on this machine and on others that are lent to the driver.
package machine

import (
	"net/netip"
	"time"

	"tsduel/host/openloop"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// Machine starts, watches and counts components. A path means the same on every host of a run. The methods
// have the form of net/rpc, so that the driver can call them on another machine.
type Machine interface {
	Programs
	Disks
	Conditions
	Clients
}

// Programs are those of databases, and of TSBS.
type Programs interface {
	FreePort(Ports, *int) error                                // the first port that nobody listens on
	Place(Pair, *string) error                                 // copies a program into a directory: the path of the copy
	Placed(Program, *record.Placed) error                      // how a program lies in memory
	Start(Command, *int) error                                 // its pid
	Await(pid int, exit *proc.Exit) error                      // waits for its end
	Kill(pid int, _ *None) error                               // kills it and what it has started
	Run(Command, *Output) error                                // runs a command to its end
	Listeners(session int, at *map[int][]netip.AddrPort) error // addresses by pid
	CPU(pid int, used *time.Duration) error                    // since its start
	Counters(pid int, c *proc.Counters) error                  // since its start
	Files(pid int, files *proc.Files) error                    // that it has open now
}

// Disks have the data, the files of databases, and logs.
type Disks interface {
	Prepare(Directories, *None) error
	Copy(Copying, *record.CopyRecord) error // copies a directory of stopped databases
	ReadOnce(Reading, *int64) error         // bytes
	Log(Piece, *[]byte) error               // a piece of a file, of 4 MiB at most
	Sync(dir string, _ *None) error         // writes out its disk
	DropCaches(dir string, _ *None) error   // needs root
	Disk(scratch string, d *Disk) error
	Sums(paths []string, sha256 *map[string]string) error // of the files that exist
}

// Conditions are what a machine is, and what else goes on there.
type Conditions interface {
	Look(pids []int, edge *int) error          // remembers an edge (noise.Take); pids are servers
	Since(Span, *record.Noise) error           // from that edge until now
	Canary(dir string, c *record.Canary) error // writes to dir
	OOMKills(_ None, count *float64) error     // since the start of the machine
	Describe(dir string, facts *record.Facts) error
}

// Clients send to the databases, and make what they send.
type Clients interface {
	Prime(openloop.Job, *int) error               // makes a client ready to send: its number
	Loop(Instant, *Looped) error                  // the client sends from that instant on, to its end
	Hold(Held, *int) error                        // starts a client's command, and stops it at once: its pid
	LetGo(Instant, *Ran) error                    // continues it at that instant, and waits for its end
	Workload(_ None, made *record.Workload) error // makes the files of the run that are missing
}

type (
	// None is no argument, or no reply.
	None struct{}
	// Ports are the ports from From on, without those Given to components that do not listen yet.
	Ports struct {
		From  int
		Given map[int]bool
	}
	// Command is a verb of an adapter. It starts in Dir; with Files, Dir is removed and made of them.
	Command struct {
		Argv, Env []string
		Dir       string
		Files     map[string]string // name -> text
		Make      []string          // directories that it needs
		Scratch   string
		CPUs      []int
		Log       string        // its output is appended there
		Patience  time.Duration // of Run
	}
	// Output is the result of Run. Late means that Patience was over, and Flood that more came than is read; the
	// command was killed.
	Output struct {
		Code        int
		Out, Err    []byte
		Late, Flood bool
	}
	// Span is the time from an edge until now, with servers of these pids.
	Span struct {
		Edge int
		Pids []int
	}
	// Directories are wiped if they are marked as ours, removed with their content, then made.
	Directories struct{ Wipe, Remove, Make []string }
	// Disk is the disk of a scratch directory, in bytes. Data is what the databases there take.
	Disk struct {
		Free, Data int64
		Full       bool
	}
	// Program is a process, and the copy of a program that it runs.
	Program struct {
		Pid  int
		Path string
	}
	// Pair is two paths.
	Pair struct{ From, To string }
	// Copying is two paths. Immutable is a pattern of paths below a component's directory: these files become hard
	// links. Without a pattern none does.
	Copying struct{ From, To, Immutable string }
	// Reading reads every file in a directory. With Drop the kernel drops their pages instead.
	Reading struct {
		Dir  string
		Drop bool
	}
	// Held is a client's command. Out and Complaints are files for its stdout and stderr; Feed is a packed file
	// for its stdin, or another file, which it reads itself.
	Held struct {
		Command
		Feed, Out, Complaints string
	}
	// Ran is its end, and when its output began, in ns since the epoch by its machine's clock. CPUs may run it.
	Ran struct {
		Exit  proc.Exit
		Began int64
		CPUs  int
	}
	// Instant is when a client (its number, or its pid) begins, in ns since the epoch by its machine's clock.
	Instant struct {
		Client int
		At     int64
	}
	// Looped is the results of a client, which may use CPUs processors.
	Looped struct {
		openloop.Totals
		Results []*openloop.Result
		CPUs    int
	}
	// Piece is a file from an offset on.
	Piece struct {
		Path string
		From int64
	}
)

type Process struct {
	Pid   int
	on    Machine
	exit  proc.Exit
	ended chan struct{}
}

// Start starts a component, and waits for its end. On a lost machine the component never counts as ended.
func Start(m Machine, c Command) (*Process, error) {
	p := &Process{on: m, ended: make(chan struct{})}
	if err := m.Start(c, &p.Pid); err != nil {
		return nil, err
	}
	go record.Caught(func() {
		if m.Await(p.Pid, &p.exit) == nil {
			close(p.ended)
		}
	})()
	return p, nil
}

func (p *Process) Ended() <-chan struct{} { return p.ended }

func (p *Process) Exit() proc.Exit { return p.exit }

func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *Process) Kill() error { return p.on.Kill(p.Pid, &None{}) }
