// Package machine runs the components and the clients of a block on this machine, and reads and writes its disk.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/bound"
	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// TakeCanary is noise.Canary; tests set a short one.
var TakeCanary = noise.Canary

// EndAll ends all that this program has started. Tests that run blocks side by side end what runs for a scratch
// directory.
var EndAll = func(scratch string) error { return proc.EndAll() }

// Address is where components listen.
const Address = "127.0.0.1"

// Command is a verb of an adapter. It starts in Dir; with Files, Dir is removed and made of them.
type Command struct {
	Argv, Env []string
	Dir       string
	Files     map[string]string // name -> text
	Make      []string          // directories that it needs
	Scratch   string
	CPUs      []int
	Limits    proc.Limits
	Log       string        // of Start: its output is appended there
	Patience  time.Duration // of Run
}

// Output is the result of Run. Late means that Patience was over, and Flood that more came than is read; the command
// was killed.
type Output struct {
	Code        int
	Out, Err    []byte
	Late, Flood bool
}

// FreePort is the first port from one on that nobody listens on, without those given to components that do not listen
// yet.
func FreePort(from int, given map[int]bool) (port int, err error) {
	for port = from; port < from+100; port++ {
		if given[port] {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort(Address, strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, record.UserError(`no port from %d on is free on %s: choose others with SET="host.port=..."`, from, Address)
}

func Start(c Command) (*proc.Process, error) {
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o777); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return execute(c, nil, log, log, c.Log)
}

// execute starts a command; log is the file of its output that is watched, or "".
func execute(c Command, stdin, stdout, stderr *os.File, log string) (*proc.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Call bash directly: /usr/bin/env would search it in the PATH of the experiment, which is the server's.
	bash, err := exec.LookPath("bash")
	if err != nil {
		return nil, record.UserError("bash is missing here, and it starts the databases: install it")
	}
	if c.Files != nil {
		err = os.RemoveAll(c.Dir)
		c.Make = append(c.Make, c.Dir)
	}
	for _, dir := range c.Make {
		err = errors.Join(err, os.MkdirAll(dir, 0o777))
	}
	for name, text := range c.Files {
		err = errors.Join(err, os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o666))
	}
	if err != nil {
		return nil, err
	}
	return proc.Start(proc.Command{Argv: append([]string{bash}, c.Argv...), Env: append(c.Env, "TSDUEL_HOST="+self),
		Dir: c.Dir, Scratch: c.Scratch, Stdin: stdin, Stdout: stdout, Stderr: stderr, CPUs: c.CPUs, Limits: c.Limits,
		Log: log})
}

// Run runs a command to its end.
func Run(ctx context.Context, c Command) (output Output, err error) {
	var files [2]*os.File
	for i := range files {
		file, err := memory(filepath.Base(c.Argv[0]))
		if err != nil {
			return output, err
		}
		defer file.Close()
		files[i] = file
	}
	p, err := execute(c, nil, files[0], files[1], "")
	if err != nil {
		return output, err
	}
	bounded, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	for looking := time.NewTicker(floodEvery); ; {
		select {
		case <-p.Ended():
			looking.Stop()
			if output.Code = p.Exit().Code; flooded(files) {
				output.Flood = true
				return output, nil
			}
			output.Out, err = os.ReadFile(files[0].Name())
			if err == nil {
				output.Err, err = os.ReadFile(files[1].Name())
			}
			return output, err
		case <-looking.C:
			output.Flood = flooded(files)
		case <-bounded.Done():
			output.Late = true
		}
		if output.Flood || output.Late {
			looking.Stop()
			return output, cmp.Or(p.Kill(), ctx.Err())
		}
	}
}

// floodEvery is how often the size of an output is looked at: a program prints up to 50 MB meanwhile.
const floodEvery = 10 * time.Millisecond

// flooded says that files have grown beyond what is read. They lie in memory.
func flooded(files [2]*os.File) bool {
	size := int64(0)
	for _, file := range files {
		if info, err := file.Stat(); err == nil {
			size += info.Size()
		}
	}
	return size > bound.Counters
}

// memory makes a file in memory. It can be read by its name while it is open.
func memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)), nil
}

// Listeners are the addresses at which the processes of a session listen, by pid.
func Listeners(session int) map[int][]netip.AddrPort {
	at := map[int][]netip.AddrPort{}
	for _, p := range proc.Processes() {
		if p.Session == session {
			at[p.PID] = proc.Listeners(p.PID)
		}
	}
	return at
}
