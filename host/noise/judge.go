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

// Judge finds the blocks that were spoilt from outside, and why, without reading measured values. The same
// blocks always give the same judgement. It returns nil for a plan without limits.
func Judge(plan *record.Plan, blocks []*record.Block) *record.NoiseReport {
	if plan.Noise == nil {
		return nil
	}
	blocks = slices.Clone(blocks)
	slices.SortFunc(blocks, func(a, b *record.Block) int { return a.Block - b.Block })
	r := &record.NoiseReport{Schema: 2, Blocks: []record.JudgedBlock{}, Signals: []record.Signal{}}
	usual := medians(blocks)
	for _, b := range blocks {
		j := judge{Block: b, Limits: plan.Noise}
		j.canaries(usual)
		j.phases()
		j.wholeBlock()
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

type judge struct {
	*record.Block
	*record.Limits
	signals []record.Signal
}

// add adds a signal of a phase. A value at its limit spoils the block; at its flag it is only reported.
func (j *judge) add(p record.Phase, signal string, value float64, unit string, limit, flag *float64,
	format string, args ...any) {
	s := record.Signal{Block: j.Block.Block, Variant: p.Variant, Phase: p.Phase, QueryType: p.QueryType, Signal: signal,
		Value: math.Round(value*1000) / 1000, Unit: unit, Limit: cmp.Or(flag, limit), Effect: "ok"}
	reached := func(at *float64) bool { return at != nil && math.Abs(value) >= *at }
	switch {
	case reached(limit) && j.Kind != "warmup":
		s.Limit, s.Effect = limit, record.Invalid
	case reached(flag):
		s.Limit, s.Effect = flag, "flag"
	case reached(limit): // the warm-up is discarded anyway
		s.Limit, s.Effect = limit, "flag"
	}
	if s.Effect != "ok" {
		s.Message = fmt.Sprintf(format, args...)
		if unit != "" {
			s.Message += fmt.Sprintf(", limit %s %s", short(*s.Limit), unit)
		}
	}
	j.signals = append(j.signals, s)
}

// short writes a number with one decimal at most.
func short(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }

func (j *judge) canaries(medians record.Canary) {
	for _, variant := range slices.Sorted(maps.Keys(j.Solo)) {
		see := func(part string, took, median float64, limit, flag *float64, work string) {
			off, direction := (took/median-1)*100, "more"
			if off < 0 {
				direction = "less"
			}
			if median > 0 {
				j.add(record.Phase{Variant: variant}, "canary_"+part+"_pct", off, "%", limit, flag,
					"the canary before %s of block %d took %s %% %s than the run's median for its %s",
					variant, j.Block.Block, short(math.Abs(off)), direction, work)
			}
		}
		if c := j.Solo[variant].Canary; c != nil {
			see("cpu", c.CPUS, medians.CPUS, j.CanaryPct, j.CanaryFlagPct, "CPU spin")
			see("memory", c.MemoryS, medians.MemoryS, j.CanaryPct, j.CanaryFlagPct, "memory copy")
			// No limit: on a shared machine fsync always varies much, and a load seldom waits for it.
			see("fsync", c.FsyncS, medians.FsyncS, nil, j.CanaryFsyncFlagPct, "fsync'd writes")
		}
	}
}

// units returns the phases to be judged. CPU times have steps of 10 ms, so phases of a variant that
// are shorter than PoolS are added up to one. The phases of the duel have no variant.
func (j *judge) units() (units []record.Phase) {
	brief := map[string][]record.Phase{} // by variant
	var variants []string
	for _, p := range j.Phases {
		switch {
		case p.Noise == nil:
		case p.Noise.Seconds >= j.PoolS:
			units = append(units, p)
		default:
			if brief[p.Variant] == nil {
				variants = append(variants, p.Variant)
			}
			brief[p.Variant] = append(brief[p.Variant], p)
		}
	}
	for _, variant := range variants {
		unit := brief[variant][0]
		if len(brief[variant]) > 1 {
			sum := &record.Noise{CPUs: unit.Noise.CPUs, PressureS: map[string]float64{}, ForeignS: new(float64)}
			for _, p := range brief[variant] {
				addNoise(sum, p.Noise)
			}
			unit = record.Phase{Variant: variant, Part: unit.Part, Phase: "pooled", Noise: sum}
		}
		units = append(units, unit)
	}
	return units
}

func addNoise(sum, n *record.Noise) {
	sum.Seconds += n.Seconds
	sum.StealS += n.StealS
	sum.IowaitS += n.IowaitS
	sum.ContextSwitches += n.ContextSwitches
	sum.ThrottledS += n.ThrottledS
	if sum.ForeignS != nil && n.ForeignS != nil {
		*sum.ForeignS += *n.ForeignS
	} else {
		sum.ForeignS = nil
	}
	for resource, waited := range n.PressureS {
		sum.PressureS[resource] += waited
	}
}

func (j *judge) phases() {
	flags := map[string]*float64{"cpu": j.PressureCPUFlagPct, "io": j.PressureIOFlagPct, "memory": j.PressureMemoryFlagPct}
	for _, p := range j.units() {
		n, where := p.Noise, strings.TrimSpace(p.Phase+" "+p.QueryType)
		if p.Phase == "pooled" {
			where = "the short phases"
		}
		if p.Variant != "" {
			where += " of " + p.Variant
		}
		where += fmt.Sprintf(" in block %d", j.Block.Block)
		percent := n.Seconds * float64(n.CPUs) / 100
		if percent <= 0 {
			continue
		}
		steal := n.StealS / percent
		j.add(p, "steal_pct", steal, "%", j.StealPct, j.StealFlagPct,
			"steal %s %% of the machine during %s", short(steal), where)
		if n.ForeignS != nil {
			foreign := *n.ForeignS / percent
			j.add(p, "foreign_cpu_pct", foreign, "%", j.ForeignCPUPct, j.ForeignCPUFlagPct,
				"foreign CPU %s %% of the machine during %s", short(foreign), where)
		}
		for _, resource := range slices.Sorted(maps.Keys(n.PressureS)) {
			share := n.PressureS[resource] / n.Seconds * 100
			j.add(p, "pressure_"+resource+"_pct", share, "%", nil, flags[resource],
				"somebody waited for %s during %s %% of %s", resource, short(share), where)
		}
		if throttled := n.ThrottledS / n.Seconds * 100; throttled > 0 {
			j.add(p, "throttled_pct", throttled, "%", j.ThrottledPct, nil,
				"a limit of CPU time held us back for %s %% of %s", short(throttled), where)
		}
		j.add(p, "iowait_pct", n.IowaitS/percent, "%", nil, nil, "")
		j.add(p, "context_switches", float64(n.ContextSwitches)/n.Seconds, "1/s", nil, nil, "")
	}
}

func (j *judge) wholeBlock() {
	none, during := record.Phase{}, fmt.Sprintf("during block %d", j.Block.Block)
	if n := j.Block.Noise; n != nil {
		if step := n.ClockStepS; step != nil {
			j.add(none, "clock_step_s", *step, "s", j.ClockStepS, nil, "the clock was set by %.3g s %s", *step, during)
		}
		j.add(none, "swap_pages", float64(n.SwapPages), "pages", nil, j.SwapFlagPages,
			"%d pages were swapped %s", n.SwapPages, during)
		if n.TemperatureC != nil {
			j.add(none, "temperature_c", *n.TemperatureC, "C", nil, nil, "")
		}
	}
	if m := j.Maintenance; m != "" && m != "NONE" {
		j.add(none, "maintenance", 1, "", new(1.0), nil, "the host was under maintenance (%s) %s", m, during)
	}
}
