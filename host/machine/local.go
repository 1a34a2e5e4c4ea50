package machine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
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

// Here is this machine, until its ctx ends.
type Here struct {
	*programs
	disks
	*conditions
	*clients
}

// programs are those that this program has started. Components listen at address.
type programs struct {
	ctx     context.Context
	address string
	mutex   sync.Mutex
	started map[int]*process // by pid
}

// disks are read and written until ctx ends.
type disks struct{ ctx context.Context }

// conditions are what else goes on here, since the edges that were taken.
type conditions struct {
	mutex sync.Mutex
	edges []noise.Edge
}

func NewHere(ctx context.Context, address string) *Here {
	started := &programs{ctx: ctx, address: address, started: map[int]*process{}}
	return &Here{programs: started, disks: disks{ctx}, conditions: &conditions{}, clients: &clients{programs: started}}
}

func (h *programs) FreePort(ports Ports, port *int) error {
	for *port = ports.From; *port < ports.From+100; *port++ {
		if ports.Given[*port] {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort(h.address, strconv.Itoa(*port))); err == nil {
			return l.Close()
		}
	}
	return record.UserError(`no port from %d on is free on %s: choose others with SET="host.port=..."`,
		ports.From, h.address)
}

func (h *programs) Place(p Pair, path *string) (err error) {
	*path, err = proc.Place(p.From, p.To)
	return err
}

func (h *programs) Placed(p Program, placed *record.Placed) error {
	*placed = proc.Placed(p.Pid, p.Path)
	return nil
}

func (h *programs) Start(c Command, pid *int) error {
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o777); err != nil {
		return err
	}
	log, err := os.OpenFile(c.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	p, err := execute(c, nil, log, log, c.Log)
	if err != nil {
		return err
	}
	*pid = p.Pid
	h.remember(&process{Process: p})
	return nil
}

func (h *programs) remember(p *process) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.started[p.Pid] = p
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
		Dir: c.Dir, Scratch: c.Scratch, Stdin: stdin, Stdout: stdout, Stderr: stderr, CPUs: c.CPUs, Log: log})
}

// Process returns a process that was started here.
func (h *programs) Process(pid int) (*proc.Process, error) {
	p, err := h.process(pid)
	if err != nil {
		return nil, err
	}
	return p.Process, nil
}

func (h *programs) process(pid int) (*process, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if p := h.started[pid]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("process %d was not started here", pid)
}

func (h *programs) Await(pid int, exit *proc.Exit) error {
	p, err := h.process(pid)
	if err == nil {
		*exit, err = p.Wait(h.ctx)
	}
	return err
}

func (h *programs) Kill(pid int, _ *None) error {
	p, err := h.process(pid)
	if err == nil {
		err = p.Kill()
	}
	return err
}

func (h *programs) Run(c Command, output *Output) error {
	var files [2]*os.File
	for i := range files {
		file, err := memory(filepath.Base(c.Argv[0]))
		if err != nil {
			return err
		}
		defer file.Close()
		files[i] = file
	}
	p, err := execute(c, nil, files[0], files[1], "")
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(h.ctx, c.Patience)
	defer cancel()
	for looking := time.NewTicker(floodEvery); ; {
		select {
		case <-p.Ended():
			looking.Stop()
			exit, _ := p.Wait(h.ctx)
			if output.Code = exit.Code; flooded(files) {
				output.Flood = true
				return nil
			}
			output.Out, err = os.ReadFile(files[0].Name())
			if err == nil {
				output.Err, err = os.ReadFile(files[1].Name())
			}
			return err
		case <-looking.C:
			output.Flood = flooded(files)
		case <-bounded.Done():
			output.Late = true
		}
		if output.Flood || output.Late {
			looking.Stop()
			return cmp.Or(p.Kill(), h.ctx.Err())
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

func (h *programs) Listeners(session int, at *map[int][]netip.AddrPort) error {
	*at = map[int][]netip.AddrPort{}
	for _, p := range proc.Processes() {
		if p.Session == session {
			(*at)[p.PID] = proc.Listeners(p.PID)
		}
	}
	return nil
}

func (h *programs) CPU(pid int, used *time.Duration) (err error) {
	*used, err = proc.CPU(pid)
	return err
}

func (h *programs) Counters(pid int, c *proc.Counters) (err error) {
	*c, err = proc.Read(pid)
	return err
}

func (h *conditions) Look(pids []int, edge *int) error {
	taken := noise.Take(pids...)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	*edge, h.edges = len(h.edges), append(h.edges, taken)
	return nil
}

func (h *conditions) Since(s Span, n *record.Noise) error {
	h.mutex.Lock()
	from := h.edges[s.Edge]
	h.mutex.Unlock()
	*n = *noise.Between(from, noise.Take(s.Pids...))
	return nil
}

func (h *conditions) Canary(dir string, c *record.Canary) error { return set(c)(TakeCanary(dir)) }

// set returns a function that sets a reply to a result.
func set[T any](reply *T) func(*T, error) error {
	return func(result *T, err error) error {
		if err == nil {
			*reply = *result
		}
		return err
	}
}

func (h disks) Prepare(d Directories, _ *None) (err error) {
	for _, dir := range d.Wipe {
		err = errors.Join(err, record.Wipe(dir))
	}
	for _, dir := range d.Remove {
		err = errors.Join(err, record.RemoveTree(dir))
	}
	for _, dir := range d.Make {
		err = errors.Join(err, os.MkdirAll(dir, 0o777))
	}
	return err
}

// ReadOnce reads every file in a directory into the page cache, or lets the kernel drop their pages.
func (h disks) ReadOnce(r Reading, read *int64) error {
	if r.Drop {
		return drop(h.ctx, r.Dir)
	}
	buffer := make([]byte, 1<<20)
	err := filepath.WalkDir(r.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		defer context.AfterFunc(h.ctx, func() { _ = file.Close() })()
		// Hide the methods of both by which io would copy in small pieces.
		bytes, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{file}, buffer)
		*read += bytes
		return cmp.Or(h.ctx.Err(), err)
	})
	if err != nil && h.ctx.Err() == nil {
		err = fmt.Errorf("reading the databases' files once: %w", err)
	}
	return err
}

func (h disks) Log(p Piece, text *[]byte) error {
	file, err := os.Open(p.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	*text, err = io.ReadAll(io.NewSectionReader(file, p.From, 4<<20))
	return err
}

func (h disks) Sync(dir string, _ *None) error { return record.SyncDisk(dir) }

func (h disks) DropCaches(dir string, _ *None) error {
	if err := record.SyncDisk(dir); err != nil {
		return err
	}
	const file = "/proc/sys/vm/drop_caches"
	err := os.WriteFile(file, []byte("3"), 0o644)
	if errors.Is(err, os.ErrPermission) {
		err = exec.Command("sudo", "-n", "sh", "-c", "echo 3 >"+file).Run()
	}
	if err != nil {
		return record.UserError("host.drop_caches is set, and the page cache cannot be dropped here (%v): "+
			"run as root, or where sudo needs no password, or SET=\"host.drop_caches=false\"", err)
	}
	return nil
}

func (h *programs) Files(pid int, files *proc.Files) error { return set(files)(proc.OpenFiles(pid)) }

func (h *conditions) OOMKills(_ None, count *float64) error {
	*count = noise.VMStat("oom_kill")
	return nil
}

func (h disks) Disk(scratch string, d *Disk) error {
	d.Free, d.Full = record.IsFull(scratch)
	d.Data = record.UsedBytes(filepath.Join(scratch, "data"))
	return nil
}

func (h *conditions) Describe(dir string, facts *record.Facts) error {
	return set(facts)(noise.Describe(dir))
}

func (h disks) Sums(paths []string, sums *map[string]string) error {
	*sums = map[string]string{}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		hash := sha256.New()
		_, err = io.Copy(hash, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		(*sums)[path] = hex.EncodeToString(hash.Sum(nil))
	}
	return nil
}
