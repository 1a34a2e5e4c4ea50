package proc

import (
	"bytes"
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

// Root is the /proc that is read; tests have one of their own.
func Root() string { return cmp.Or(os.Getenv("TSDUEL_PROC"), "/proc") }

// SysRoot is the same for /sys.
func SysRoot() string { return cmp.Or(os.Getenv("TSDUEL_SYS"), "/sys") }

func procPath(name string) string { return filepath.Join(Root(), name) }

// Text is what a file of /proc or /sys says, empty where the kernel has no such file.
func Text(path ...string) string {
	text, _ := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(text))
}

func readLines(path string) []string {
	return strings.FieldsFunc(Text(path), func(r rune) bool { return r == '\n' })
}

func glob(pattern string) []string {
	found, _ := filepath.Glob(pattern)
	return found
}

// CPU is what a process has used so far with all its threads, those that have ended too: its CPU clock,
// clock_getcpuclockid(3), in nanoseconds where /proc/PID/stat has ticks of 10 ms.
func CPU(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Counters are what the kernel has counted of a process so far.
type Counters struct {
	CPU, User, System                          time.Duration // User and System in steps of 10 ms
	MajorFaults                                uint64
	RSS, PeakRSS                               uint64 // bytes
	Read, Written, StorageRead, StorageWritten uint64 // bytes of system calls, and of those that reached a disk
}

// tick is a hundredth of a second: USER_HZ on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Read reads the counters of a process; what it cannot read any more is 0, and the error says so.
func Read(pid int) (c Counters, err error) {
	if c.CPU, err = CPU(pid); err != nil {
		return c, err
	}
	p, err := FS().Proc(pid)
	if err != nil {
		return c, err
	}
	stat, err := p.Stat()
	if err != nil {
		return c, err
	}
	c.User, c.System = time.Duration(stat.UTime)*tick, time.Duration(stat.STime)*tick
	c.MajorFaults = uint64(stat.MajFlt)
	status, err := p.NewStatus()
	if err != nil {
		return c, err
	}
	c.RSS, c.PeakRSS = status.VmRSS, status.VmHWM
	io, err := p.IO()
	c.Read, c.Written, c.StorageRead, c.StorageWritten = io.RChar, io.WChar, io.ReadBytes, io.WriteBytes
	return c, err
}

// FS is procfs at Root.
func FS() procfs.FS {
	fs, _ := procfs.NewFS(Root()) // a missing /proc shows at the first read
	return fs
}

// Stat is /proc/PID/stat.
func Stat(pid int) (procfs.ProcStat, error) {
	p, err := FS().Proc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

// Processes are all of the machine; those that end while we look are left out.
func Processes() (found []procfs.ProcStat) {
	all, _ := FS().AllProcs()
	for _, p := range all {
		if s, err := p.Stat(); err == nil {
			found = append(found, s)
		}
	}
	return found
}

// EndStrays ends what an interrupted run left behind, known by its Mark, and says how many those were.
func EndStrays(scratch string) (count int, err error) {
	seen := map[int]bool{}
	for deadline := time.Now().Add(EndPatience); ; time.Sleep(20 * time.Millisecond) {
		left := marked(scratch)
		if len(left) == 0 {
			return len(seen), nil
		}
		for _, pid := range left {
			seen[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			return len(seen), stuck(left[0], "?")
		}
	}
}

func marked(scratch string) (found []int) {
	mark := []byte("\x00" + Mark + "=" + scratch + "\x00")
	for _, s := range Processes() {
		text, err := os.ReadFile(procPath(strconv.Itoa(s.PID) + "/environ"))
		if err == nil && s.PID != os.Getpid() && bytes.Contains(append([]byte{0}, text...), mark) {
			found = append(found, s.PID)
		}
	}
	return found
}

// Listeners are the TCP addresses on which processes of ours listen.
func Listeners(pids ...int) (found []netip.AddrPort) {
	inodes := map[uint64]bool{}
	for _, pid := range pids {
		for _, fd := range glob(procPath(fmt.Sprintf("%d/fd/*", pid))) {
			target, _ := os.Readlink(fd)
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				n, _ := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64)
				inodes[n] = true
			}
		}
	}
	//lint:ignore SA1019 netlink is one more dependency for what we look at twice a block
	for _, table := range []func() (procfs.NetTCP, error){FS().NetTCP, FS().NetTCP6} {
		lines, _ := table() // there may be no IPv6
		for _, line := range lines {
			if line.St == 10 && inodes[line.Inode] { // TCP_LISTEN
				if ip, ok := netip.AddrFromSlice(line.LocalAddr); ok {
					found = append(found, netip.AddrPortFrom(ip.Unmap(), uint16(line.LocalPort)))
				}
			}
		}
	}
	return found
}
