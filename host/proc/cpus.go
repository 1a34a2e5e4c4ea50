package proc

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
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

// Siblings returns the allowed CPUs by core. Each CPU is a core if /sys does not say which CPUs share one.
func Siblings() (cores [][]int) { return siblings(Allowed()) }

func siblings(allowed []int) (cores [][]int) {
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

// Alike returns the cores of one NUMA node and of one kind: the fast ones, of the node that has most of them.
// Servers and client are compared on equal cores then, with their memory near. left says what was left out, or
// why all cores are taken although they differ; "" if they do not.
func Alike(cores [][]int) (alike [][]int, left string) {
	nodes, slow := map[int]string{}, map[int]bool{}
	for _, dir := range Glob(SysRoot(), "devices/system/node/node[0-9]*") {
		for _, cpu := range parseList(Text(dir, "cpulist")) {
			nodes[cpu] = filepath.Base(dir)
		}
	}
	for _, cpu := range parseList(Text(SysRoot(), "devices/cpu_atom/cpus")) { // Intel's name of slow cores
		slow[cpu] = true
	}
	capacity, most := map[int]int{}, 0 // Arm's; 1024 is the fastest
	for _, core := range cores {
		text := Text(SysRoot(), fmt.Sprintf("devices/system/cpu/cpu%d/cpu_capacity", core[0]))
		capacity[core[0]], _ = strconv.Atoi(text)
		most = max(most, capacity[core[0]])
	}
	groups := map[string][][]int{} // fast cores by node
	for _, core := range cores {
		if cpu := core[0]; !slow[cpu] && capacity[cpu] == most {
			groups[nodes[cpu]] = append(groups[nodes[cpu]], core)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(groups)) {
		if len(groups[node]) > len(alike) {
			alike = groups[node]
		}
	}
	used, all := len(slices.Concat(alike...)), len(slices.Concat(cores...))
	switch {
	case used == all:
		return cores, ""
	case len(alike) < 2:
		return cores, fmt.Sprintf("the %d CPUs are of several kinds or NUMA nodes, and no two cores are alike: "+
			"what runs where may differ between runs", all)
	}
	return alike, fmt.Sprintf("%d of %d CPUs are used: the fast cores of one NUMA node", used, all)
}

// parseList reads a list of CPUs as the kernel writes it (0-3,8), and skips what is not a number.
func parseList(text string) (cpus []int) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			high = low
		}
		from, err := strconv.Atoi(low)
		to, _ := strconv.Atoi(high)
		for cpu := from; err == nil && cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Split gives the client the last cores, with a quarter of the CPUs or a little more, and the servers the
// other cores (docs/blocks.md). One core cannot be split: why says so.
func Split(cores [][]int) (server, client []int, why string) {
	cpus := len(slices.Concat(cores...))
	if len(cores) < 2 {
		return nil, nil, fmt.Sprintf("there is one core to run on (%d CPUs)", cpus)
	}
	first := len(cores) - 1
	for first > 1 && len(slices.Concat(cores[first:]...)) < cpus/4 {
		first--
	}
	return slices.Concat(cores[:first]...), slices.Concat(cores[first:]...), ""
}

// Pin lets all threads of this process run on these CPUs only; undo restores the CPUs of before.
func Pin(cpus []int) (undo func() error, err error) {
	before := Allowed()
	pin := func(cpus []int) error {
		// A new thread has the CPUs of the thread that made it, so look again until there is no new thread.
		for seen := map[string]bool{}; ; {
			again := false
			for _, task := range Glob("/proc/self/task/*") {
				if !seen[task] {
					seen[task], again = true, true
					tid, _ := strconv.Atoi(filepath.Base(task))
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
