package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Group is the control group of all processes that this program starts: it counts their CPU time, and they
// cannot leave it. It is nil on a machine without such groups. Each process has a group of its own in it, so
// that Kill finds what the process has started, unless such a group would have its own share of the CPUs.
type Group struct {
	Kind  string // v1 (cpuacct) or v2
	dir   string
	fd    *os.File
	share bool         // groups in it would have shares of the CPUs: v1 has cpu and cpuacct together
	last  atomic.Int64 // number of the newest group in it
}

// Ours returns the group of this program. The first call makes it, below the group that this process is in, or where
// the controllers of limits are to be had (CanLimit).
var Ours = sync.OnceValue(func() *Group {
	for _, at := range ownGroups("cpuacct") {
		for _, above := range at.places() {
			removeOld(above)
			g := &Group{Kind: at.kind, share: at.share, dir: filepath.Join(above, groupName())}
			if os.Mkdir(g.dir, 0o755) != nil {
				continue
			}
			if g.works() {
				return g
			}
			removeGroup(g.dir)
		}
	}
	return nil
})

// works starts a process in the group: a container may refuse that although the files allow it.
func (g *Group) works() (started bool) {
	var err error
	if g.fd, err = os.Open(g.dir); err != nil {
		return false
	}
	trial := exec.Command("true")
	trial.SysProcAttr = &syscall.SysProcAttr{}
	if _, err = g.cpu(); err == nil && g.join(trial) == nil {
		_ = trial.Wait()
		return true
	}
	return false
}

// groupName is that of this program in every hierarchy.
func groupName() string { return fmt.Sprintf("tsduel-%d", os.Getpid()) }

// removeOld removes the groups of ended programs. The group of a running program may be empty at this moment.
func removeOld(dir string) {
	for _, old := range Glob(dir, "tsduel-*") {
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(filepath.Base(old), "tsduel-")); os.IsNotExist(err) {
			removeGroup(old)
		}
	}
}

func Leave() {
	if g := Ours(); g != nil {
		removeGroup(g.dir)
	}
	for _, controller := range []string{"cpu", "memory"} { // those of limits
		for _, at := range ownGroups(controller) {
			removeGroup(filepath.Join(at.dir, groupName()))
		}
	}
}

func removeGroup(dir string) {
	for _, within := range Glob(dir, "[0-9]*") {
		_ = os.Remove(within)
	}
	_ = os.Remove(dir)
}

// UsedByUs returns the CPU time of the servers (pids), and that of this program with its clients. Without a
// Group it counts only clients that have ended.
func UsedByUs(servers ...int) (server, own time.Duration, err error) {
	for _, pid := range servers {
		used, err := CPU(pid)
		if err != nil {
			return 0, 0, err
		}
		server += used
	}
	var self, ended unix.Rusage
	_, _ = unix.Getrusage(unix.RUSAGE_SELF, &self), unix.Getrusage(unix.RUSAGE_CHILDREN, &ended)
	own = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	if g := Ours(); g != nil {
		used, err := g.cpu()
		return server, own + used - server, err
	}
	return server, own + time.Duration(ended.Utime.Nano()+ended.Stime.Nano()), nil
}

// ownGroup is the group of this process in one hierarchy, and where that hierarchy is mounted (root). share:
// the hierarchy is v1's and has the controller cpu.
type ownGroup struct {
	kind, dir, root string
	share           bool
}

// places are where the group of this program may be made, the best first. A group with processes, such as a session or
// a service, can give its groups no controllers in v2; one above it may.
func (at ownGroup) places() []string {
	if names := controllers.Load(); names != nil && at.kind == "v2" {
		for dir := at.dir; strings.HasPrefix(dir, at.root); dir = filepath.Dir(dir) {
			given := strings.Join(strings.Fields(Text(dir, "cgroup.subtree_control")), ",")
			if !slices.ContainsFunc(*names, func(name string) bool { return !contains(given, name) }) {
				return []string{dir, at.dir}
			}
		}
	}
	return []string{at.dir}
}

// ownGroups returns the group in cgroup v2, and the one in v1's hierarchy of a controller.
func ownGroups(controller string) (groups []ownGroup) {
	mounts, paths := readLines(procPath("self/mountinfo")), readLines(procPath("self/cgroup"))
	for _, kind := range []string{"v2", "v1"} {
		for _, mount := range mounts {
			// 41 31 0:38 /ROOT /MOUNT_POINT OPTIONS [...] - TYPE SOURCE SUPER_OPTIONS
			place, what, _ := strings.Cut(mount, " - ")
			f, t := strings.Fields(place), strings.Fields(what)
			if len(f) < 5 || len(t) < 3 {
				continue
			}
			for _, line := range paths {
				p := strings.SplitN(line, ":", 3) // HIERARCHY:CONTROLLERS:PATH
				if len(p) != 3 {
					continue
				}
				v2 := kind == "v2" && t[0] == "cgroup2" && p[0] == "0"
				v1 := kind == "v1" && t[0] == "cgroup" && contains(t[2], controller) && contains(p[1], controller)
				if v2 || v1 {
					inside, err := filepath.Rel(f[3], p[2])
					if err != nil || strings.HasPrefix(inside, "..") {
						inside = "." // a container sees its own group as the root
					}
					groups = append(groups, ownGroup{kind, filepath.Join(f[4], inside), f[4], v1 && contains(t[2], "cpu")})
				}
			}
		}
	}
	return groups
}

func contains(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// CPULimit is how many CPUs the control groups allow this process on average, 0 for no limit.
func CPULimit() float64 {
	limit := 0.0
	for _, at := range ownGroups("cpu") {
		for dir := at.dir; strings.HasPrefix(dir, at.root); dir = filepath.Dir(dir) {
			f := strings.Fields(Text(dir, "cpu.max"))
			if at.kind == "v1" {
				f = []string{Text(dir, "cpu.cfs_quota_us"), Text(dir, "cpu.cfs_period_us")}
			}
			if len(f) == 2 {
				quota, _ := strconv.ParseFloat(f[0], 64) // "max" and -1: no limit
				period, _ := strconv.ParseFloat(f[1], 64)
				if quota > 0 && period > 0 && (limit == 0 || quota/period < limit) {
					limit = quota / period
				}
			}
		}
	}
	return limit
}

// Throttled returns how often and for how long limits of CPU time have held back the processes of the control groups
// that this one is in; 0 without a limit.
func Throttled() (count int64, held time.Duration) {
	for _, at := range ownGroups("cpu") {
		for dir := at.dir; strings.HasPrefix(dir, at.root); dir = filepath.Dir(dir) {
			f := Fields(Text(dir, "cpu.stat"), " ")
			number := func(name string) int64 {
				n, _ := strconv.ParseInt(f[name], 10, 64)
				return n
			}
			count += number("nr_throttled")
			held += time.Duration(number("throttled_time")) + time.Duration(number("throttled_usec"))*time.Microsecond
		}
	}
	return count, held
}

// start starts a command in a group of its own; nil if it has none, and is in g if there is a g.
func (g *Group) start(cmd *exec.Cmd) (own *Group, err error) {
	if g == nil {
		return nil, cmd.Start()
	}
	if !g.share {
		own = &Group{Kind: g.Kind, dir: filepath.Join(g.dir, strconv.FormatInt(g.last.Add(1), 10))}
		if os.Mkdir(own.dir, 0o755) == nil {
			if own.fd, err = os.Open(own.dir); err == nil {
				defer own.fd.Close()
				if err = own.join(cmd); err != nil {
					_ = os.Remove(own.dir)
				}
				return own, err
			}
		}
	}
	return nil, g.join(cmd)
}

// join starts a command in the group. In v1 it moves the process after its start, unless the kernel refuses.
func (g *Group) join(cmd *exec.Cmd) error {
	if g.Kind == "v1" {
		if err := cmd.Start(); err != nil {
			return err
		}
		_ = os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644)
		return nil
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.fd.Fd())
	return cmd.Start()
}

// cpu is the CPU time of all processes that were ever in the group.
func (g *Group) cpu() (time.Duration, error) {
	if g.Kind == "v1" {
		ns, err := strconv.ParseInt(Text(g.dir, "cpuacct.usage"), 10, 64)
		return time.Duration(ns), err
	}
	us, err := strconv.ParseInt(Fields(Text(g.dir, "cpu.stat"), " ")["usage_usec"], 10, 64)
	return time.Duration(us) * time.Microsecond, err
}

// kill kills all processes in the group, whatever session they are in. It does not use cgroup.kill: with
// Linux 6.18 that also kills processes that start in the group later (docs/surprises.md).
func (g *Group) kill() error {
	if g == nil {
		return nil
	}
	_, left := killAll(func() []int { return collected(g.pids()) })
	if len(left) > 0 {
		return fmt.Errorf("%d processes of this run were killed and are still there after %v (%s/cgroup.procs)",
			len(left), EndPatience, g.dir)
	}
	return nil
}

// pids are the processes in the group, and in those within it.
func (g *Group) pids() (pids []int) {
	for _, file := range append(Glob(g.dir, "[0-9]*/cgroup.procs"), filepath.Join(g.dir, "cgroup.procs")) {
		for _, line := range readLines(file) {
			if pid, err := strconv.Atoi(line); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// controllers are those of the limits that were tried; nil without limits.
var controllers atomic.Pointer[[]string]
