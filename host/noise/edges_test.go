package noise

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// host is a /proc of two CPUs: cpu has ticks of user nice system idle iowait irq softirq steal; pressure is
// in µs.
type host struct {
	cpu      string
	uptime   float64
	switches int
	swap     [2]int
	pressure []int
	kernel   map[int]int // pid -> ticks of a kernel thread
	others   map[int]int
}

func (h host) take(t *testing.T, used *ours) Edge {
	t.Helper()
	root := t.TempDir()
	t.Setenv("TSDUEL_PROC", root)
	write(t, root, "stat", fmt.Sprintf("cpu  %s 0 0\ncpu0 1\ncpu1 1\nintr 9 9 9\nctxt %d\n", h.cpu, h.switches))
	write(t, root, "uptime", fmt.Sprintf("%v 99.0\n", h.uptime))
	write(t, root, "vmstat", fmt.Sprintf("nr_free_pages 5\npswpin %d\npswpout %d\n", h.swap[0], h.swap[1]))
	for i, total := range h.pressure {
		name := []string{"cpu", "io", "memory"}[i]
		const averages = "avg10=0.00 avg60=0.00 avg300=0.00"
		write(t, root, "pressure/"+name, fmt.Sprintf("some %s total=%d\nfull %s total=1\n", averages, total, averages))
	}
	for flags, of := range map[int]map[int]int{kernelThread | 64: h.kernel, 0: h.others} {
		for pid, ticks := range of {
			write(t, root, fmt.Sprintf("%d/stat", pid),
				fmt.Sprintf("%d (kworker) R 2) S 2 1 1 0 -1 %d 0 0 0 0 0 %d 0 0 20 0 1 0 11 0 0%s\n", pid, flags, ticks,
					strings.Repeat(" 0", 30)))
		}
	}
	return take(used)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func failIf(t *testing.T, wrong bool, format string, args ...any) {
	t.Helper()
	if wrong {
		t.Errorf(format, args...)
	}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// Every figure is a difference of the kernel's counters. Foreign CPU is user + nice + system without the
// server, this program and kernel threads, which have a flag and are subtracted one by one.
func TestCounted(t *testing.T) {
	sys := t.TempDir()
	t.Setenv("TSDUEL_SYS", sys)
	write(t, sys, "class/thermal/thermal_zone0/temp", "61500\n")
	before := host{cpu: "1000 10 500 9000 7 1 2 30", uptime: 100, pressure: []int{0, 0, 0},
		kernel: map[int]int{9: 40, 10: 5000, 12: 50}}.take(t, &ours{440 * time.Millisecond, time.Second})
	after := host{cpu: "1500 30 680 9900 19 1 2 130", uptime: 112.5, switches: 5000, swap: [2]int{3, 4},
		pressure: []int{2_500_000, 1_000_000, 1},
		kernel:   map[int]int{9: 60, 11: 10, 12: 40}, others: map[int]int{13: 600}}.take(t,
		&ours{3040 * time.Millisecond, 2650 * time.Millisecond})
	n := Between(before, after)
	for name, c := range map[string][2]float64{
		"seconds": {n.Seconds, 12.5}, "cpus": {float64(n.CPUs), 2}, "busy": {n.BusyS, 7}, "steal": {n.StealS, 1},
		"iowait": {n.IowaitS, 0.12},
		"server": {*n.ServerS, 2.6}, "own": {*n.OwnS, 1.65}, "kernel": {*n.KernelS, 0.3}, "foreign": {*n.ForeignS, 2.45},
		"switches": {float64(n.ContextSwitches), 5000}, "swap": {float64(n.SwapPages), 7},
		"temperature":  {*n.TemperatureC, 61.5},
		"cpu pressure": {n.PressureS["cpu"], 2.5}, "memory pressure": {n.PressureS["memory"], 1e-6},
	} {
		failIf(t, math.Abs(c[0]-c[1]) > 1e-9, "%s: %v, not %v", name, c[0], c[1])
	}
	if step := *n.ClockStepS; math.Abs(step+12.5) > 5 { // the clock of the wall did not go on meanwhile
		t.Errorf("clock step %v", step)
	}
}

// A figure that the machine lacks is nil, and not 0. Foreign CPU is never negative.
func TestMissing(t *testing.T) {
	t.Setenv("TSDUEL_SYS", t.TempDir())
	n := Between(host{cpu: "1 0 0 0 0 0 0 0", uptime: 1}.take(t, nil),
		host{cpu: "2 0 0 0 0 0 0 0", uptime: 2}.take(t, nil))
	failIf(t, n.ServerS != nil || n.ForeignS != nil || n.TemperatureC != nil || len(n.PressureS) != 0 || n.StealS != 0,
		"%+v", n)
	n = Between(host{cpu: "0 0 0 0 0 0 0 0"}.take(t, &ours{}),
		host{cpu: "9 0 0 0 0 0 0 0"}.take(t, &ours{server: 110 * time.Millisecond}))
	failIf(t, *n.ForeignS != 0, "%+v", n)
}

// Only machines of Google ask the metadata server.
func TestMaintenance(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Header.Get("Metadata-Flavor") == "Google" {
			_, _ = fmt.Fprintln(w, "MIGRATE_ON_HOST_MAINTENANCE")
		}
	}))
	defer server.Close()
	metadataURL = server.URL
	for product, want := range map[string]string{"Google Compute Engine": "MIGRATE_ON_HOST_MAINTENANCE", "Standard PC": "",
		"": ""} {
		sys := t.TempDir()
		t.Setenv("TSDUEL_SYS", sys)
		write(t, sys, "class/dmi/id/product_name", product+"\n")
		said := maintenance()
		failIf(t, said != want, "%s: %q", product, said)
	}
	failIf(t, asked != 1, "asked %d times", asked)
}

func described(t *testing.T) *record.Facts {
	t.Helper()
	facts, err := Describe(t.TempDir())
	must(t, err)
	return facts
}

// A machine is described by its files. A limit of a control group lowers the number of CPUs.
func TestDescribe(t *testing.T) {
	root, sys, group := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("TSDUEL_PROC", root)
	t.Setenv("TSDUEL_SYS", sys)
	for name, text := range map[string]string{
		"cpuinfo": "processor\t: 0\nmodel name\t: Some CPU @ 2.20GHz\n" +
			"flags\t\t: fpu hypervisor\nprocessor\t: 1\nmodel name\t: Another\n",
		"meminfo": "MemTotal:       24000 kB\nSwapTotal:           0 kB\n", "sys/kernel/random/boot_id": "a-b\n",
		"sys/vm/overcommit_memory": "1\n",
		"self/mountinfo":           "41 31 0:38 / " + group + " rw,relatime - cgroup2 cgroup2 rw\n", "self/cgroup": "0::/a\n",
	} {
		write(t, root, name, text)
	}
	write(t, group, "a/cpu.max", "50000 100000\n")
	write(t, sys, "kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
	write(t, sys, "devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
	write(t, sys, "devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n")
	f := described(t)
	failIf(t, f.CPUModel != "Some CPU @ 2.20GHz" || f.MemoryBytes != 24000<<10 || f.BootID != "a-b" ||
		f.Governor != "performance" || f.TransparentHugepage != "madvise" ||
		f.Filesystem == "" || f.DiskFreeBytes <= 0 || f.Kernel == "" || f.CPULimit == nil || *f.CPULimit != 0.5 ||
		f.CPUs != 1, "%+v", f)
	failIf(t, len(f.Sysctls) != 1 || f.Sysctls["vm.overcommit_memory"] != "1", "%v", f.Sysctls)
	failIf(t, f.Pin.Reason != "", "%v", f.Pin.Reason)
	write(t, sys, "devices/cpu_atom/cpus", "0\n") // if there is but one CPU, all are alike
	const want = "its CPUs are of several kinds or NUMA nodes, and servers may run on any"
	reason := described(t).Pin.Reason
	failIf(t, len(proc.Allowed()) > 1 && reason != want, "%v", reason)
	_, err := Describe("/no/such")
	failIf(t, err == nil, "a directory that is not there has a disk")
}

// The canary times its three parts, and leaves no file.
func TestCanary(t *testing.T) {
	spins, copiedBytes = 1_000_000, 1<<20
	dir := t.TempDir()
	c, err := Canary(dir)
	failIf(t, err != nil || c.CPUS <= 0 || c.MemoryS <= 0 || c.FsyncS <= 0, "%+v %v", c, err)
	left, _ := os.ReadDir(dir)
	failIf(t, len(left) > 0, "%v", left)
	sys := t.TempDir()
	t.Setenv("TSDUEL_SYS", sys)
	write(t, sys, "devices/system/cpu/cpu0/cache/index0/size", "48K\n")
	write(t, sys, "devices/system/cpu/cpu0/cache/index3/size", "2048K\n")
	size := lastLevelCache()
	failIf(t, size != 2<<20, "%v", size)
	_, err = Canary("/no/such")
	failIf(t, err == nil, "it can write where nothing is")
}
