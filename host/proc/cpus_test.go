package proc

import (
	"fmt"
	"slices"
	"testing"
)

// sys makes a /sys of a machine, and returns its cores. threads gives the list of a CPU's core.
func sys(t *testing.T, cpus int, threads func(cpu int) string, files map[string]string) [][]int {
	t.Helper()
	root := t.TempDir()
	t.Setenv("TSDUEL_SYS", root)
	write(t, root, files)
	var allowed []int
	for cpu := range cpus {
		allowed = append(allowed, cpu)
		write(t, root, map[string]string{
			fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu): threads(cpu)})
	}
	return siblings(allowed)
}

// Servers and client get cores of one kind and of one NUMA node, as these machines number them.
// The client gets a quarter of the CPUs, whole cores, and never the first one.
func TestCoresOfOneKindAndOneNode(t *testing.T) {
	alone := func(cpu int) string { return fmt.Sprint(cpu) }
	far := func(apart int) func(int) string { // its sibling is so many CPUs away
		return func(cpu int) string { return fmt.Sprintf("%d,%d", cpu%apart, cpu%apart+apart) }
	}
	alder := func(cpu int) string {
		if cpu >= 16 {
			return fmt.Sprint(cpu)
		}
		return fmt.Sprintf("%d-%d", cpu/2*2, cpu/2*2+1)
	}
	capacities := map[string]string{}
	for cpu := range 8 {
		capacities[fmt.Sprintf("devices/system/cpu/cpu%d/cpu_capacity", cpu)] = []string{"446", "1024"}[cpu/4]
	}
	type files = map[string]string
	for name, c := range map[string]struct {
		cpus     int
		siblings func(int) string
		files    files
		server   string
		client   string
		left     string
	}{
		"Alder Lake (i9-12900): 8 fast cores of two threads, 8 slow ones": {
			24, alder, files{"devices/cpu_core/cpus": "0-15", "devices/cpu_atom/cpus": "16-23",
				"devices/system/node/node0/cpulist": "0-23"},
			"0-11", "12-15", "16 of 24 CPUs are used: the fast cores of one NUMA node"},
		"two Xeons of 16 cores": {
			64, far(32), files{"devices/system/node/node0/cpulist": "0-15,32-47",
				"devices/system/node/node1/cpulist": "16-31,48-63"},
			"0-11,32-43", "12-15,44-47", "32 of 64 CPUs are used: the fast cores of one NUMA node"},
		"EPYC of eight CCDs, as one node": {
			128, far(64), files{"devices/system/node/node0/cpulist": "0-127"},
			"0-47,64-111", "48-63,112-127", ""},
		"EPYC of eight CCDs, as four nodes": {
			128, far(64), files{"devices/system/node/node0/cpulist": "0-15,64-79",
				"devices/system/node/node1/cpulist": "16-31,80-95", "devices/system/node/node2/cpulist": "32-47,96-111",
				"devices/system/node/node3/cpulist": "48-63,112-127"},
			"0-11,64-75", "12-15,76-79", "32 of 128 CPUs are used: the fast cores of one NUMA node"},
		"Graviton 3": {64, alone, files{"devices/system/node/node0/cpulist": "0-63"},
			"0-47", "48-63", ""},
		"an Arm with four slow and four fast cores": {8, alone, capacities, "4-6", "7",
			"4 of 8 CPUs are used: the fast cores of one NUMA node"},
		"two nodes of one core": {
			2, alone, files{"devices/system/node/node0/cpulist": "0",
				"devices/system/node/node1/cpulist": "1"},
			"0", "1", "the 2 CPUs are of several kinds or NUMA nodes, and no two cores are alike: " +
				"what runs where may differ between runs"},
	} {
		t.Run(name, func(t *testing.T) {
			cores, left := Alike(sys(t, c.cpus, c.siblings, c.files))
			server, client, why := Split(cores)
			failIf(t, !same(server, c.server) || !same(client, c.client) || left != c.left || why != "",
				"servers %v, client %v, %q, %q", server, client, left, why)
		})
	}
}

func same(cpus []int, list string) bool {
	slices.Sort(cpus)
	return slices.Equal(cpus, parseList(list))
}
