package noise

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tsduel/host/record"
)

// Judge says of all blocks which were spoilt from outside, by what, and what else is worth a look. It knows no measured
// value, and the same blocks give the same judgement whenever it is asked for. Nil for a plan without limits.
func Judge(plan *record.Plan, blocks []*record.Block) *record.NoiseReport {
	if plan.Noise == nil {
		return nil
	}
	blocks = slices.Clone(blocks)
	slices.SortFunc(blocks, func(a, b *record.Block) int { return a.Block - b.Block })
	r := &record.NoiseReport{Schema: 2, Blocks: []record.JudgedBlock{}, Signals: []record.Signal{}}
	usual := medians(blocks)
	for _, b := range blocks {
		j := judge{block: b, limits: plan.Noise}
		j.canaries(usual)
		for _, host := range j.hosts() {
			j.phases(host)
		}
		j.whole()
		r.Signals = append(r.Signals, j.signals...)
		if b.Kind == "warmup" {
			continue
		}
		judged := record.JudgedBlock{Block: b.Block, Kind: b.Kind, Causes: []string{}, State: record.Valid}
		for _, s := range j.signals {
			if s.Effect == record.Invalid {
				judged.Causes, judged.State = append(judged.Causes, s.Message), record.Invalid
			}
		}
		if b.Status == record.Failed {
			judged.State = record.Failed
		}
		r.Blocks = append(r.Blocks, judged)
	}
	return r
}

func medians(blocks []*record.Block) record.Canary {
	var cpu, memory, fsync []float64
	for _, b := range blocks {
		for _, solo := range b.Solo {
			if c := solo.Canary; c != nil {
				cpu, memory, fsync = append(cpu, c.CPUS), append(memory, c.MemoryS), append(fsync, c.FsyncS)
			}
		}
	}
	return record.Canary{CPUS: median(cpu), MemoryS: median(memory), FsyncS: median(fsync)}
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// judge looks at one block.
type judge struct {
	block   *record.Block
	limits  *record.Limits
	signals []record.Signal
}

// add adds a line: what was seen, what it is held against (at a limit the block is spoilt, at a flag it is told), and a
// sentence without its limit.
func (j *judge) add(of record.Phase, signal string, value float64, unit string, limit, flag *float64, said string) {
	s := record.Signal{Block: j.block.Block, Variant: of.Variant, Phase: of.Phase, QueryType: of.QueryType, Signal: signal,
		Value: math.Round(value*1000) / 1000, Unit: unit, Limit: cmp.Or(flag, limit), Effect: "ok"}
	reached := func(at *float64) bool { return at != nil && math.Abs(value) >= *at }
	switch {
	case reached(limit) && j.block.Kind != "warmup":
		s.Limit, s.Effect = limit, record.Invalid
	case reached(flag):
		s.Limit, s.Effect = flag, "flag"
	case reached(limit): // what is discarded anyway cannot be spoilt
		s.Limit, s.Effect = limit, "flag"
	}
	if s.Effect != "ok" {
		s.Message = said
		if unit != "" {
			s.Message += fmt.Sprintf(", limit %s %s", short(*s.Limit), unit)
		}
	}
	j.signals = append(j.signals, s)
}

// short has at most one decimal.
func short(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }

func (j *judge) canaries(medians record.Canary) {
	for _, variant := range slices.Sorted(maps.Keys(j.block.Solo)) {
		c := j.block.Solo[variant].Canary
		if c == nil {
			continue
		}
		see := func(part string, took, median float64, limit, flag *float64, what string) {
			if median <= 0 {
				return
			}
			off, direction := (took/median-1)*100, "more"
			if off < 0 {
				direction = "less"
			}
			j.add(record.Phase{Variant: variant}, "canary_"+part+"_pct", off, "%", limit, flag,
				fmt.Sprintf("the canary before %s of block %d took %s %% %s than the run's median for its %s", variant, j.block.Block, short(math.Abs(off)), direction, what))
		}
		see("cpu", c.CPUS, medians.CPUS, j.limits.CanaryPct, j.limits.CanaryFlagPct, "CPU spin")
		see("memory", c.MemoryS, medians.MemoryS, j.limits.CanaryPct, j.limits.CanaryFlagPct, "memory copy")
		// A disk's fsync varies by more than any limit on a shared machine, and a load waits for it rarely.
		see("fsync", c.FsyncS, medians.FsyncS, nil, j.limits.CanaryFsyncFlagPct, "fsync'd writes")
	}
}

// hosts are those that phases have noise of: the client's own has no name here.
func (j *judge) hosts() []string {
	seen := map[string]bool{"": true}
	for _, p := range j.block.Phases {
		for host := range p.Hosts {
			seen[host] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// units are the phases that are judged of a host: a clock tick is 10 ms, so those too short to be judged alone are judged together,
// by variant (the duel's have none).
func (j *judge) units(host string) (units []record.Phase) {
	brief := map[string][]record.Phase{}
	var names []string
	for _, p := range j.block.Phases {
		if host != "" {
			p.Noise = p.Hosts[host]
		}
		switch {
		case p.Noise == nil:
		case p.Noise.Seconds >= j.limits.PoolS:
			units = append(units, p)
		default:
			if brief[p.Variant] == nil {
				names = append(names, p.Variant)
			}
			brief[p.Variant] = append(brief[p.Variant], p)
		}
	}
	for _, name := range names {
		if len(brief[name]) == 1 {
			units = append(units, brief[name][0])
			continue
		}
		sum := record.Noise{CPUs: brief[name][0].Noise.CPUs, PressureS: map[string]float64{}, ForeignS: new(float64)}
		for _, p := range brief[name] {
			n := p.Noise
			sum.Seconds, sum.StealS, sum.IowaitS, sum.ContextSwitches = sum.Seconds+n.Seconds, sum.StealS+n.StealS, sum.IowaitS+n.IowaitS, sum.ContextSwitches+n.ContextSwitches
			if n.ForeignS == nil {
				sum.ForeignS = nil
			} else if sum.ForeignS != nil {
				*sum.ForeignS += *n.ForeignS
			}
			for resource, waited := range n.PressureS {
				sum.PressureS[resource] += waited
			}
		}
		units = append(units, record.Phase{Variant: name, Part: brief[name][0].Part, Phase: "pooled", Noise: &sum})
	}
	return units
}

func (j *judge) phases(host string) {
	flags := map[string]*float64{"cpu": j.limits.PressureCPUFlagPct, "io": j.limits.PressureIOFlagPct, "memory": j.limits.PressureMemoryFlagPct}
	for _, p := range j.units(host) {
		n, of := p.Noise, ""
		if p.Variant != "" {
			of = " of " + p.Variant
		}
		where := strings.TrimSpace(p.Phase+" "+p.QueryType) + of
		if p.Phase == "pooled" {
			where = "the short phases" + of
		}
		where += fmt.Sprintf(" in block %d", j.block.Block)
		if host != "" {
			where += " on " + host
		}
		percent := n.Seconds * float64(n.CPUs) / 100
		if percent <= 0 {
			continue
		}
		steal := n.StealS / percent
		j.add(p, "steal_pct", steal, "%", j.limits.StealPct, j.limits.StealFlagPct, fmt.Sprintf("steal %s %% of the machine during %s", short(steal), where))
		if n.ForeignS != nil {
			foreign := *n.ForeignS / percent
			j.add(p, "foreign_cpu_pct", foreign, "%", j.limits.ForeignCPUPct, j.limits.ForeignCPUFlagPct,
				fmt.Sprintf("foreign CPU %s %% of the machine during %s", short(foreign), where))
		}
		for _, resource := range slices.Sorted(maps.Keys(n.PressureS)) {
			share := n.PressureS[resource] / n.Seconds * 100
			j.add(p, "pressure_"+resource+"_pct", share, "%", nil, flags[resource],
				fmt.Sprintf("somebody waited for %s during %s %% of %s", resource, short(share), where))
		}
		j.add(p, "iowait_pct", n.IowaitS/percent, "%", nil, nil, "")
		j.add(p, "context_switches", float64(n.ContextSwitches)/n.Seconds, "1/s", nil, nil, "")
	}
}

func (j *judge) whole() {
	none, in := record.Phase{}, fmt.Sprintf("block %d", j.block.Block)
	for _, host := range slices.Sorted(maps.Keys(j.block.Hosts)) {
		n := j.block.Hosts[host]
		j.add(none, "swap_pages", float64(n.SwapPages), "pages", nil, j.limits.SwapFlagPages, fmt.Sprintf("%d pages were swapped during %s on %s", n.SwapPages, in, host))
	}
	if n := j.block.Noise; n != nil {
		if n.ClockStepS != nil {
			step := *n.ClockStepS
			j.add(none, "clock_step_s", step, "s", j.limits.ClockStepS, nil, fmt.Sprintf("the clock was set by %.3g s during %s", step, in))
		}
		j.add(none, "swap_pages", float64(n.SwapPages), "pages", nil, j.limits.SwapFlagPages, fmt.Sprintf("%d pages were swapped during %s", n.SwapPages, in))
		if n.TemperatureC != nil {
			j.add(none, "temperature_c", *n.TemperatureC, "C", nil, nil, "")
		}
	}
	if m := j.block.Maintenance; m != "" && m != "NONE" {
		j.add(none, "maintenance", 1, "", ptr(1.0), nil, fmt.Sprintf("the host was under maintenance (%s) during %s", m, in))
	}
}
