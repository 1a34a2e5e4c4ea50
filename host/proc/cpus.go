package proc

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func setOf(cpus []int) *unix.CPUSet {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return &set
}

// Allowed are the CPUs that we may run on.
func Allowed() (cpus []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &set) != nil {
		return nil
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Siblings are the CPUs that we may run on by core, where /sys says which share one; else each is a core of its own.
func Siblings() (cores [][]int) {
	allowed := Allowed()
	seen := map[int]bool{}
	for _, cpu := range allowed {
		if seen[cpu] {
			continue
		}
		var core []int
		list := Text(fmt.Sprintf("%s/devices/system/cpu/cpu%d/topology/thread_siblings_list", SysRoot(), cpu))
		for _, sibling := range append(parseList(list), cpu) {
			if slices.Contains(allowed, sibling) && !seen[sibling] {
				seen[sibling] = true
				core = append(core, sibling)
			}
		}
		cores = append(cores, core)
	}
	return cores
}

// parseList reads the kernel's lists of CPUs, as 0-3,8; what is no number is left out.
func parseList(text string) (cpus []int) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.Atoi(low)
		if err != nil {
			continue
		}
		to := from
		if ranged {
			to, _ = strconv.Atoi(high)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Split gives the client a quarter of the CPUs, at least one and whole cores, and the servers the rest
// (MEASUREMENT.md 3). With a single core there is nothing to split, and why is said.
func Split(cores [][]int) (server, client []int, why string) {
	if len(cores) < 2 {
		return nil, nil, fmt.Sprintf("there is one core to run on (%d CPUs)", len(slices.Concat(cores...)))
	}
	least := max(1, len(slices.Concat(cores...))/4)
	for i := len(cores) - 1; i > 0; i-- {
		if len(client) < least {
			client = append(slices.Clone(cores[i]), client...)
		} else {
			server = append(slices.Clone(cores[i]), server...)
		}
	}
	return append(slices.Clone(cores[0]), server...), client, ""
}

// Pin makes all threads of our own process run on these CPUs only; undo lets them run where they could before.
func Pin(cpus []int) (undo func() error, err error) {
	before := Allowed()
	pin := func(cpus []int) error {
		// A thread that is born meanwhile has its parent's CPUs: once more, until none is new.
		for seen := map[string]bool{}; ; {
			again := false
			for _, task := range glob("/proc/self/task/*") {
				if !seen[task] {
					seen[task], again = true, true
					tid, _ := strconv.Atoi(task[strings.LastIndexByte(task, '/')+1:])
					if err := unix.SchedSetaffinity(tid, setOf(cpus)); err != nil && err != unix.ESRCH {
						return fmt.Errorf("pin ourselves to CPUs %v: %w", cpus, err)
					}
				}
			}
			if !again {
				return nil
			}
		}
	}
	return func() error { return pin(before) }, pin(cpus)
}
