package run

import (
	"math"
	"os"
	"slices"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

// calibrate chooses, once after the warm-up, how many operations a block has, the same for all blocks. Without a warm-up block
// nothing is chosen: every phase lasts its time.
func (d *driver) calibrate() error {
	warm := slices.ContainsFunc(d.rows, func(row record.BlockRow) bool { return row.Kind == "warmup" })
	if d.spec.Calibration != nil || !warm {
		return nil
	}
	c := &record.Calibration{}
	err := record.ReadJSON(d.raw("calibration.json"), c)
	if os.IsNotExist(err) {
		if d.kind.Calibrate != nil {
			c, err = d.kind.Calibrate(d.plan, d.runDir)
		} else {
			c, err = d.counts()
		}
		if err == nil {
			err = record.WriteJSON(d.raw("calibration.json"), c)
		}
	}
	if err == nil {
		d.spec.Calibration = c
	}
	return err
}

func (d *driver) counts() (*record.Calibration, error) {
	c := &record.Calibration{Counts: map[string]int{}, SoloCounts: map[string]int{}}
	last := 0
	for _, row := range d.rows {
		last = max(last, row.Block)
		if b := d.blocks[row.Block]; row.Kind == "warmup" && b != nil {
			d.countWarmup(b, c)
		}
	}
	for _, t := range slices.Concat(d.plan.Queries.Types, d.plan.Queries.Windowed) {
		count, solo := c.Counts[t.Name], c.SoloCounts[t.Name]
		if count == 0 && d.refused() {
			continue // nobody was left to exchange with
		}
		if (d.plan.Duel.Enabled && count == 0) || (d.plan.Queries.Solo && solo == 0) {
			return nil, record.FailedError("the warm-up block did not get through %s, so no count could be chosen: see %s", t.Name, d.raw("000/block.json"))
		}
		if !d.plan.Duel.Enabled {
			continue
		}
		// Every block has a slice of its own of the file, and the shortest file is enough for all.
		for _, file := range d.spec.Workload.Queries {
			if file.Type == t.Name {
				count = min(count, file.Count/(last+1))
			}
		}
		if count == 0 {
			return nil, record.UserError("the files of %s have fewer queries than there are blocks: make queries.max_count larger", t.Name)
		}
		if cycle := d.cycle(); count > cycle {
			count -= count % cycle
		}
		c.Counts[t.Name] = count
	}
	return c, nil
}

func (d *driver) countWarmup(b *record.Block, c *record.Calibration) {
	duels := []*record.DuelRecord{b.Duel}
	if b.Upgrade != nil {
		duels = append(duels, b.Upgrade.Before, b.Upgrade.After)
	}
	for _, duel := range duels {
		if duel == nil {
			continue
		}
		for _, t := range duel.Types {
			if t.Exchanges > 0 && t.Seconds > 0 {
				c.Counts[t.QueryType] = exchanges(d.plan.Duel, d.cycle(), float64(t.Exchanges)/t.Seconds)
			}
		}
	}
	if !d.plan.Queries.Solo {
		return
	}
	for _, p := range b.Phases {
		if p.Part != record.Solo || p.Phase != "query" || p.Count == 0 || p.End <= p.Begin {
			continue
		}
		// What fills the time for the fastest variant.
		count := int(math.Ceil(float64(p.Count)/(p.End-p.Begin)*d.plan.Queries.Seconds/10)) * 10
		count = min(max(count, 20), max(d.plan.Queries.MaxCount, 1))
		if d.plan.Queries.Count != nil {
			count = *d.plan.Queries.Count
		}
		c.SoloCounts[p.QueryType] = max(c.SoloCounts[p.QueryType], count)
	}
}

// refused says that in the warm-up a variant did not start on what the baseline had left.
func (d *driver) refused() bool {
	return slices.ContainsFunc(d.plan.Variants, func(v record.Variant) bool {
		return d.blocks[0] != nil && d.blocks[0].Refused(v.Name) != ""
	})
}

// cycle is the least number of exchanges in which no variant is asked first more often than another.
func (d *driver) cycle() int { return exchange.Cycle(len(d.plan.Variants), d.plan.Duel.InFlight) }

// exchanges is how many a phase has at so many a second: as many as fill it, at least `least`; where those would take longer than
// longest_s, what fits into that, but at least `fewest`. Whole cycles (B C C B), so that all orders are as frequent.
func exchanges(duel record.Duel, cycle int, rate float64) int {
	count := rate * duel.Seconds
	if least := float64(duel.Least); count < least {
		count = math.Max(math.Min(least, rate*duel.LongestS), float64(duel.Fewest))
	}
	return int(math.Ceil(count/float64(cycle))) * cycle
}
