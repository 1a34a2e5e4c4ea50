// Package noise says what else this machine did: at the edges of phases, in a canary before each solo part, and for blocks.
package noise

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

const (
	tick         = 0.01     // seconds: USER_HZ is 100 on every Linux that Go runs on
	kernelThread = 0x200000 // PF_KTHREAD; their parent says nothing, since in a container pid 2 may be anybody
)

// ours is the CPU time that proc.UsedByUs says.
type ours struct{ server, own time.Duration }

// Edge is what the kernel has counted at one moment.
type Edge struct {
	at, uptime          float64
	cpus                int
	busy, steal, iowait float64
	ours                *ours // nil where a server of ours is gone
	kernel              map[int]float64
	switches, swapped   float64
	pressure            map[string]float64
	temperature         *float64
}

// Watch notes in a block what the machine does from now on, until its end is called.
func Watch(b *record.Block) (end func()) {
	b.Started, b.BootID = record.Epoch(time.Now()), BootID()
	before := Take()
	return func() {
		b.Noise, b.Maintenance, b.Ended = Between(before, Take()), Maintenance(), record.Epoch(time.Now())
	}
}

// Take reads the counters at this moment; what else of ours runs than these servers is the clients' and our own.
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
	for _, resource := range []string{"cpu", "io", "memory"} {
		// A kernel may have the file and refuse to read it (psi=0).
		if psi, err := fs.PSIStatsForResource(resource); err == nil && psi.Some != nil {
			e.pressure[resource] = float64(psi.Some.Total) / 1e6
		}
	}
	for _, p := range proc.Processes() {
		if p.Flags&kernelThread != 0 {
			e.kernel[p.PID] = float64(p.UTime+p.STime) * tick
		}
	}
	for _, pattern := range []string{"class/thermal/thermal_zone*/temp", "class/hwmon/hwmon*/temp*_input"} {
		found, _ := filepath.Glob(filepath.Join(proc.SysRoot(), pattern))
		for _, file := range found {
			if milli, err := strconv.ParseFloat(proc.Text(file), 64); err == nil && (e.temperature == nil || milli/1000 > *e.temperature) {
				e.temperature = ptr(milli / 1000)
			}
		}
	}
	return e
}

// VMStat is a counter of /proc/vmstat, 0 where there is none.
func VMStat(name string) float64 {
	for line := range strings.Lines(proc.Text(proc.Root(), "vmstat")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			count, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return count
		}
	}
	return 0
}

// Between is what happened from one edge to the other. Foreign CPU is what was busy and neither ours nor the kernel's own.
func Between(from, to Edge) *record.Noise {
	kernel := 0.0
	for pid, used := range to.kernel {
		// One by one: a thread that has ended takes its ticks with it, and its number may be given again.
		kernel += max(0, used-from.kernel[pid])
	}
	n := &record.Noise{
		Seconds: round(to.uptime - from.uptime), ClockStepS: ptr(round((to.at - from.at) - (to.uptime - from.uptime))), CPUs: to.cpus,
		BusyS: round(to.busy - from.busy), StealS: round(to.steal - from.steal), IowaitS: round(to.iowait - from.iowait), KernelS: ptr(round(kernel)),
		ContextSwitches: int64(to.switches - from.switches), SwapPages: int64(to.swapped - from.swapped),
		TemperatureC: hotter(from.temperature, to.temperature), PressureS: map[string]float64{},
	}
	if from.ours != nil && to.ours != nil {
		server, own := (to.ours.server - from.ours.server).Seconds(), (to.ours.own - from.ours.own).Seconds()
		n.ServerS, n.OwnS = ptr(round(server)), ptr(round(own))
		// Processes and the host are counted in two ways, so the rest can be a tick below nothing.
		n.ForeignS = ptr(round(max(0, to.busy-from.busy-server-own-kernel)))
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

func ptr[T any](v T) *T { return &v }

func round(x float64) float64 { return math.Round(x*1e6) / 1e6 }
