package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tsduel/host/record"
)

// Limits are what a process may use, with all that it starts; 0 is no limit.
type Limits struct {
	CPUs   float64 // on average, over periods of 100 ms
	Memory int64   // bytes, with the page cache of its files, and no swap
}

// LimitsOf are those of a plan.
func LimitsOf(plan record.ServerLimits) Limits { return Limits{plan.Cpus, plan.MemoryMb << 20} }

const cpuPeriod = 100_000 // µs

// limited is the control groups that hold a process within its Limits, by controller.
type limited struct {
	groups map[string]limitGroup
	made   []string // to remove at its end
	kills  atomic.Int64
}

type limitGroup struct{ kind, dir string }

var limitGroups atomic.Int64 // number of the newest

// hold puts a process that has just started into groups with its limits. own is its group of this run, or nil.
func (l *limited) hold(limits Limits, pid int, own *Group) error {
	l.groups = map[string]limitGroup{}
	quota := strconv.FormatInt(int64(limits.CPUs*cpuPeriod), 10)
	bytes := strconv.FormatInt(limits.Memory, 10)
	if limits.CPUs > 0 {
		period := strconv.Itoa(cpuPeriod)
		err := l.set("cpu", pid, own, map[string][][2]string{
			"v1": {{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}}, "v2": {{"cpu.max", quota + " " + period}}})
		if err != nil {
			return err
		}
	}
	if limits.Memory > 0 {
		// A kernel without swap has no file for it.
		return l.set("memory", pid, own, map[string][][2]string{
			"v1": {{"memory.limit_in_bytes", bytes}, {"?memory.memsw.limit_in_bytes", bytes}},
			"v2": {{"memory.max", bytes}, {"?memory.swap.max", "0"}}})
	}
	return nil
}

// set makes the group of a controller, or takes the process's own of v2, writes its files, and moves the process.
func (l *limited) set(controller string, pid int, own *Group, files map[string][][2]string) error {
	group, err := l.groupOf(controller, own)
	for _, file := range files[group.kind] {
		name, optional := strings.CutPrefix(file[0], "?")
		if err == nil {
			if err = os.WriteFile(filepath.Join(group.dir, name), []byte(file[1]), 0o644); optional {
				err = nil
			}
		}
	}
	if err == nil && group.kind == "v1" {
		err = os.WriteFile(filepath.Join(group.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
	}
	if err != nil {
		return fmt.Errorf("limit its %s: %w", controller, err)
	}
	l.groups[controller] = group
	return nil
}

func (l *limited) groupOf(controller string, own *Group) (limitGroup, error) {
	if own != nil && own.Kind == "v2" {
		above := filepath.Dir(own.dir)
		if contains(strings.Join(strings.Fields(Text(above, "cgroup.controllers")), ","), controller) {
			err := os.WriteFile(filepath.Join(above, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
			return limitGroup{"v2", own.dir}, err
		}
	}
	for _, at := range ownGroups(controller) {
		if at.kind != "v1" {
			continue
		}
		removeOld(at.dir)
		// Where cpu and cpuacct are together this is the Group, in which all stays counted.
		above := filepath.Join(at.dir, groupName())
		dir := filepath.Join(above, strconv.FormatInt(limitGroups.Add(1), 10))
		l.made = append(l.made, dir)
		return limitGroup{"v1", dir}, os.MkdirAll(dir, 0o755)
	}
	return limitGroup{}, errors.New("no control groups of it are to be had here")
}

// end keeps what the groups have counted, and removes them unless the process has left others in them.
func (l *limited) end() {
	l.kills.Store(l.countKills())
	l.remove()
}

func (l *limited) remove() {
	for _, dir := range l.made {
		_ = os.Remove(dir)
	}
}

func (l *limited) countKills() int64 {
	memory, has := l.groups["memory"]
	if !has {
		return 0
	}
	file := map[string]string{"v1": "memory.oom_control", "v2": "memory.events"}[memory.kind]
	n, _ := strconv.ParseInt(Fields(Text(memory.dir, file), " ")["oom_kill"], 10, 64)
	return n
}

// LimitKills is how often the memory limit has ended the process, or what it started, once it has ended.
func (l *limited) LimitKills() int64 { return l.kills.Load() }

// Throttled is for how long the CPU limit has held the process back; false without a limit.
func (l *limited) Throttled() (time.Duration, bool) {
	cpu, has := l.groups["cpu"]
	if !has {
		return 0, false
	}
	stat := Fields(Text(cpu.dir, "cpu.stat"), " ")
	ns, _ := strconv.ParseInt(stat["throttled_time"], 10, 64)
	us, _ := strconv.ParseInt(stat["throttled_usec"], 10, 64)
	return time.Duration(ns) + time.Duration(us)*time.Microsecond, true
}

// CanLimit tries limits on a program that does nothing. Ours has to be called after it.
func CanLimit(limits Limits) error {
	if limits == (Limits{}) {
		return nil
	}
	var needed []string
	if limits.CPUs > 0 {
		needed = append(needed, "cpu")
	}
	if limits.Memory > 0 {
		needed = append(needed, "memory")
	}
	controllers.Store(&needed)
	trial := exec.Command("true")
	trial.SysProcAttr = &syscall.SysProcAttr{}
	group, err := Ours().start(trial)
	if err != nil {
		return err
	}
	var l limited
	err = l.hold(limits, trial.Process.Pid, group)
	_ = trial.Wait()
	l.end()
	if group != nil {
		_ = os.Remove(group.dir)
	}
	return err
}
