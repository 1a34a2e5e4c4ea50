package proc

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Root is the directory of /proc; tests set another one.
func Root() string { return cmp.Or(os.Getenv("TSDUEL_PROC"), "/proc") }

func SysRoot() string { return cmp.Or(os.Getenv("TSDUEL_SYS"), "/sys") }

func procPath(name string) string { return filepath.Join(Root(), name) }

// Text returns a file of /proc or /sys without white space around it, "" if the file is missing.
func Text(path ...string) string {
	text, _ := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(text))
}

// Fields reads lines of NAME SEPARATOR VALUE. If a name comes again, its first value counts.
func Fields(lines, separator string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(lines) {
		name, value, ok := strings.Cut(line, separator)
		if name = strings.TrimSpace(name); ok && values[name] == "" {
			values[name] = strings.TrimSpace(value)
		}
	}
	return values
}

// KiB returns the bytes of a value as "8 kB", -1 if it is no such value.
func KiB(value string) int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 64)
	if err != nil {
		return -1
	}
	return kib << 10
}

func readLines(path string) []string {
	return strings.FieldsFunc(Text(path), func(r rune) bool { return r == '\n' })
}

func Glob(pattern ...string) []string {
	paths, _ := filepath.Glob(filepath.Join(pattern...))
	return paths
}

// CPU is the CPU time of a process so far, with its ended threads. It reads the CPU clock
// (clock_getcpuclockid(3)), since /proc/PID/stat counts in steps of 10 ms.
func CPU(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Counters are the kernel's counters of a process since its start. Of memory and I/O, -1 is unknown: the
// kernel shows /proc/PID/io of another user's process to nobody but root, and some have no VmHWM.
type Counters struct {
	CPU, User, System           time.Duration // User and System in steps of Tick
	MajorFaults                 uint64
	RSS, PeakRSS                int64 // bytes
	Read, Written               int64 // bytes of system calls
	StorageRead, StorageWritten int64 // bytes from and to a disk
}

// Tick is the step of CPU times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const Tick = 10 * time.Millisecond

// Read reads the counters of a process; the error is of a process that has ended.
func Read(pid int) (c Counters, err error) {
	c.CPU, err = CPU(pid)
	p, noProcess := FS().Proc(pid)
	if err = cmp.Or(err, noProcess); err != nil {
		return c, err
	}
	stat, err := p.Stat()
	if err != nil {
		return c, err
	}
	c.User, c.System = time.Duration(stat.UTime)*Tick, time.Duration(stat.STime)*Tick
	c.MajorFaults = uint64(stat.MajFlt)
	c.RSS, c.PeakRSS, c.Read, c.Written, c.StorageRead, c.StorageWritten = -1, -1, -1, -1, -1, -1
	if status, err := p.NewStatus(); err == nil {
		c.RSS, c.PeakRSS = cmp.Or(int64(status.VmRSS), -1), cmp.Or(int64(status.VmHWM), -1)
	}
	if io, err := p.IO(); err == nil {
		c.Read, c.Written = int64(io.RChar), int64(io.WChar)
		c.StorageRead, c.StorageWritten = int64(io.ReadBytes), int64(io.WriteBytes)
	}
	return c, nil
}

// Work is what the kernel counts of the work of a process, by name, of all threads that it has now.
func Work(pid int) (map[string]uint64, error) {
	p, err := FS().Proc(pid)
	if err != nil {
		return nil, err
	}
	all := map[string]uint64{}
	if io, err := p.IO(); err == nil {
		all["read_calls"], all["write_calls"] = io.SyscR, io.SyscW
		all["read_bytes"], all["written_bytes"] = io.RChar, io.WChar
	}
	threads, err := FS().AllThreads(pid)
	for _, thread := range threads {
		if status, gone := thread.NewStatus(); gone == nil {
			all["context_switches"] += status.VoluntaryCtxtSwitches + status.NonVoluntaryCtxtSwitches
		}
	}
	return all, err
}

// Add returns the sum of two counts, unknown (-1) if one of them is.
func Add(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

func FS() procfs.FS {
	fs, _ := procfs.NewFS(Root()) // if /proc is missing, the first read fails
	return fs
}

func Stat(pid int) (procfs.ProcStat, error) {
	p, err := FS().Proc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

// Processes returns the processes of the machine, without those that end meanwhile.
func Processes() (stats []procfs.ProcStat) {
	all, _ := FS().AllProcs()
	for _, p := range all {
		if s, err := p.Stat(); err == nil {
			stats = append(stats, s)
		}
	}
	return stats
}

func Listeners(pids ...int) (addresses []netip.AddrPort) {
	inodes := map[uint64]bool{}
	for _, pid := range pids {
		for _, fd := range Glob(procPath(fmt.Sprintf("%d/fd/*", pid))) {
			target, _ := os.Readlink(fd)
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				n, _ := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64)
				inodes[n] = true
			}
		}
	}
	//lint:ignore SA1019 netlink would be one more dependency for two reads a block
	for _, table := range []func() (procfs.NetTCP, error){FS().NetTCP, FS().NetTCP6} {
		lines, _ := table() // there may be no IPv6
		for _, line := range lines {
			ip, ok := netip.AddrFromSlice(line.LocalAddr)
			if ok && line.St == 10 && inodes[line.Inode] { // TCP_LISTEN
				addresses = append(addresses, netip.AddrPortFrom(ip.Unmap(), uint16(line.LocalPort)))
			}
		}
	}
	return addresses
}

type Files struct{ Open, Most int }

func OpenFiles(pid int) (*Files, error) {
	p, err := FS().Proc(pid)
	if err != nil {
		return nil, err
	}
	open, noFiles := p.FileDescriptorsLen()
	limits, noLimits := p.Limits()
	return &Files{open, int(limits.OpenFiles)}, cmp.Or(noFiles, noLimits)
}
