package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Group is a control group in which all processes of ours are: what it has used is exactly ours, and nothing that it starts gets out of it.
// A nil Group is a machine that gives us none.
type Group struct {
	Kind string // v1 (cpuacct) or v2
	dir  string
	fd   *os.File
}

// Ours is the group of this program, made below the one that we are in when it is first asked for.
var Ours = sync.OnceValue(func() *Group {
	for _, at := range ownGroups("cpuacct") {
		for _, old := range glob(filepath.Join(at.dir, "tsduel-*")) {
			// Of a program that is gone; one that is there may have nobody in its group just now.
			if _, err := os.Stat("/proc/" + strings.TrimPrefix(filepath.Base(old), "tsduel-")); os.IsNotExist(err) {
				_ = os.Remove(old)
			}
		}
		g := &Group{Kind: at.kind, dir: filepath.Join(at.dir, fmt.Sprintf("tsduel-%d", os.Getpid()))}
		if os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		var err error
		if g.fd, err = os.Open(g.dir); err == nil {
			trial := exec.Command("true")
			trial.SysProcAttr = &syscall.SysProcAttr{}
			// Tried, since a container may forbid what its files allow.
			if _, err = g.cpu(); err == nil && g.start(trial) == nil {
				_ = trial.Wait()
				return g
			}
		}
		_ = os.Remove(g.dir)
	}
	return nil
})

// Leave removes our group once all is over.
func Leave() {
	if g := Ours(); g != nil {
		_ = os.Remove(g.dir)
	}
}

// UsedByUs is the CPU time of the servers, and of all else that is ours: clients, and we ourselves. Without a group of
// ours, of those clients that have ended.
func UsedByUs(servers ...int) (server, own time.Duration, err error) {
	for _, pid := range servers {
		used, err := CPU(pid)
		if err != nil {
			return 0, 0, err
		}
		server += used
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if err := unix.Getrusage(who, &usage); err != nil {
			return 0, 0, err
		}
		if who == unix.RUSAGE_SELF || Ours() == nil {
			own += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		}
	}
	if g := Ours(); g != nil {
		used, err := g.cpu()
		return server, own + used - server, err
	}
	return server, own, nil
}

// ownGroup is where we are in one hierarchy; root is where that is mounted.
type ownGroup struct{ kind, dir, root string }

// ownGroups finds us in cgroup v2 (also where it is mounted beside v1), then in v1's hierarchy of a controller.
func ownGroups(controller string) (found []ownGroup) {
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
						inside = "." // a container that sees its own group as the root
					}
					found = append(found, ownGroup{kind, filepath.Join(f[4], inside), f[4]})
				}
			}
		}
	}
	return found
}

func contains(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// CPULimit is how many CPUs the control groups that we are in allow us on average; 0 where they do not limit us.
func CPULimit() float64 {
	limit := 0.0
	for _, at := range ownGroups("cpu") {
		for dir := at.dir; strings.HasPrefix(dir, at.root); dir = filepath.Dir(dir) {
			f := strings.Fields(Text(filepath.Join(dir, "cpu.max")))
			if at.kind == "v1" {
				f = []string{Text(filepath.Join(dir, "cpu.cfs_quota_us")), Text(filepath.Join(dir, "cpu.cfs_period_us"))}
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

// start starts a command inside, where it is born in v2 and brought in v1; outside where the kernel refuses.
func (g *Group) start(cmd *exec.Cmd) error {
	if g == nil {
		return cmd.Start()
	}
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

// cpu is what all processes that ever were in the group have used.
func (g *Group) cpu() (time.Duration, error) {
	if g.Kind == "v1" {
		ns, err := strconv.ParseInt(Text(filepath.Join(g.dir, "cpuacct.usage")), 10, 64)
		return time.Duration(ns), err
	}
	for _, line := range readLines(filepath.Join(g.dir, "cpu.stat")) {
		if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
			us, err := strconv.ParseInt(value, 10, 64)
			return time.Duration(us) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("%s/cpu.stat has no usage_usec", g.dir)
}

// kill ends everything in the group, whatever session it has moved to.
func (g *Group) kill() error {
	if g == nil {
		return nil
	}
	for deadline := time.Now().Add(EndPatience); ; time.Sleep(5 * time.Millisecond) {
		pids := readLines(filepath.Join(g.dir, "cgroup.procs"))
		if len(pids) == 0 {
			return nil
		}
		// Not by cgroup.kill: in Linux 6.18 whatever is born into the group later dies of it as well.
		for _, pid := range pids {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = unix.Kill(n, unix.SIGKILL)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of ours were killed and are still there after %v (%s/cgroup.procs)", len(pids), EndPatience, g.dir)
		}
	}
}
