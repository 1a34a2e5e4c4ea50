// Package noise reads what else the machine does: at the edges of phases, and in a canary before each solo
// part. It judges which blocks were spoilt from outside.
package noise

import (
	"math"
	"strconv"
	"strings"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// kernelThread is PF_KTHREAD. Parents do not tell kernel threads: in a container any process may have pid 2.
const kernelThread = 0x200000

type ours struct{ server, own time.Duration }

// Edge holds the machine's counters at one moment: CPU times and pressure in seconds.
type Edge struct {
	at, uptime          float64
	cpus                int
	busy, steal, iowait float64
	ours                *ours           // nil if a server has ended
	kernel              map[int]float64 // pid of a kernel thread -> its CPU time
	switches, swapped   float64
	pressure            map[string]float64
	temperature         *float64
	throttled           int64
	held                time.Duration
}

// Watch records in a block what the machine does from now on, until end is called.
func Watch(b *record.Block) (end func()) {
	b.Started, b.BootID = record.Epoch(time.Now()), BootID()
	before := Take()
	return func() {
		b.Noise, b.Maintenance, b.Ended = Between(before, Take()), maintenance(), record.Epoch(time.Now())
	}
}

// Take reads the machine's counters, and the CPU time of servers (pids), clients and this program.
func Take(servers ...int) Edge {
	server, own, err := proc.UsedByUs(servers...)
	if err != nil {
		return take(nil)
	}
	return take(&ours{server, own})
}

func take(used *ours) Edge {
	fs := proc.FS()
	e := Edge{ours: used, kernel: map[int]float64{}, pressure: map[string]float64{}}
	up, _, _ := strings.Cut(proc.Text(proc.Root(), "uptime"), " ")
	e.uptime, _ = strconv.ParseFloat(up, 64)
	e.at = record.Epoch(time.Now())
	if stat, err := fs.Stat(); err == nil {
		cpu := stat.CPUTotal
		e.cpus, e.switches = len(stat.CPU), float64(stat.ContextSwitches)
		e.busy, e.steal, e.iowait = cpu.User+cpu.Nice+cpu.System, cpu.Steal, cpu.Iowait
	}
	e.swapped = VMStat("pswpin") + VMStat("pswpout")
	e.throttled, e.held = proc.Throttled()
	for _, resource := range []string{"cpu", "io", "memory"} {
		// A kernel may have the file, and refuse to read it (psi=0).
		if psi, err := fs.PSIStatsForResource(resource); err == nil && psi.Some != nil {
			e.pressure[resource] = float64(psi.Some.Total) / 1e6
		}
	}
	for _, p := range proc.Processes() {
		if p.Flags&kernelThread != 0 {
			e.kernel[p.PID] = float64(p.UTime+p.STime) * proc.Tick.Seconds()
		}
	}
	for _, pattern := range []string{"class/thermal/thermal_zone*/temp", "class/hwmon/hwmon*/temp*_input"} {
		for _, file := range proc.Glob(proc.SysRoot(), pattern) {
			if milli, err := strconv.ParseFloat(proc.Text(file), 64); err == nil {
				e.temperature = hotter(e.temperature, new(milli/1000))
			}
		}
	}
	return e
}

// VMStat is a counter of /proc/vmstat, 0 if the kernel has none of this name.
func VMStat(name string) float64 {
	count, _ := strconv.ParseFloat(proc.Fields(proc.Text(proc.Root(), "vmstat"), " ")[name], 64)
	return count
}

// Between returns the difference of two edges. Foreign CPU excludes ours and that of the kernel's threads.
func Between(from, to Edge) *record.Noise {
	kernel := 0.0
	for pid, used := range to.kernel {
		// Subtract thread by thread: an ended thread takes its ticks with it, and its pid may be used again.
		kernel += max(0, used-from.kernel[pid])
	}
	seconds := to.uptime - from.uptime
	n := &record.Noise{
		Seconds: round(seconds), ClockStepS: new(round(to.at - from.at - seconds)), CPUs: to.cpus,
		BusyS: round(to.busy - from.busy), StealS: round(to.steal - from.steal), IowaitS: round(to.iowait - from.iowait),
		KernelS: new(round(kernel)), ContextSwitches: int64(to.switches - from.switches),
		SwapPages: int64(to.swapped - from.swapped), TemperatureC: hotter(from.temperature, to.temperature),
		PressureS: map[string]float64{}, Throttled: to.throttled - from.throttled,
		ThrottledS: round((to.held - from.held).Seconds()),
	}
	if from.ours != nil && to.ours != nil {
		server, own := (to.ours.server - from.ours.server).Seconds(), (to.ours.own - from.ours.own).Seconds()
		n.ServerS, n.OwnS = new(round(server)), new(round(own))
		// The kernel counts processes and the machine in two ways, so the rest may be a tick below 0.
		n.ForeignS = new(round(max(0, to.busy-from.busy-server-own-kernel)))
	}
	for resource, waited := range to.pressure {
		if before, ok := from.pressure[resource]; ok {
			n.PressureS[resource] = round(waited - before)
		}
	}
	return n
}

func hotter(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func round(x float64) float64 { return math.Round(x*1e6) / 1e6 }
