package run

import (
	"math"
	"os"
	"slices"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

// calibrate chooses, once after the warm-up, how many operations a block has, the same for all blocks.
// Without a warm-up block nothing is chosen: every phase lasts its time.
func (d *driver) calibrate() error {
	warmup := slices.IndexFunc(d.rows, func(row record.BlockRow) bool { return row.Kind == "warmup" })
	if d.Calibration != nil || warmup < 0 {
		return nil
	}
	c, path := &record.Calibration{}, d.raw("calibration.json")
	err := record.ReadJSON(path, c)
	if os.IsNotExist(err) {
		if d.kind.Calibrate != nil {
			c, err = d.kind.Calibrate(d.Plan, d.raw(d.rows[warmup].Name()))
		} else {
			c, err = d.counts()
		}
		if err == nil {
			err = record.WriteJSON(path, c)
		}
	}
	if err == nil {
		d.Calibration = c
	}
	return err
}

func (d *driver) counts() (*record.Calibration, error) {
	plan, sides, name := d.Plan, len(d.Plan.Variants), ""
	var b *record.Block // the warm-up block
	for _, row := range d.rows {
		if row.Kind == "warmup" {
			b, name = d.blocks[row.Block], row.Name()
		}
	}
	c := &record.Calibration{Counts: map[string]int{}, SoloCounts: map[string]int{}}
	if b != nil {
		countWarmup(plan, b, sides, c)
	}
	refused := func(v record.Variant) bool { return b.Refused(v.Name) != "" }
	for _, t := range slices.Concat(plan.Queries.Types, plan.Queries.Windowed) {
		count := c.Counts[t.Name]
		if count == 0 && slices.ContainsFunc(plan.Variants, refused) {
			continue // no side was left to exchange with
		}
		if (plan.Duel.Enabled && count == 0) || (plan.Queries.Solo && c.SoloCounts[t.Name] == 0) {
			return nil, record.FailedError("the warm-up block did not get through %s, so no count could be chosen: see %s",
				t.Name, d.raw(name+"/block.json"))
		}
		if !plan.Duel.Enabled {
			continue
		}
		// Each block asks its own part of the file. The shortest file of all targets decides.
		for _, file := range d.Workload.Queries {
			if file.Type == t.Name {
				count = min(count, file.Count/len(d.rows))
			}
		}
		if count == 0 {
			return nil, record.UserError("the files of %s have fewer queries than there are blocks: "+
				"make queries.max_count larger", t.Name)
		}
		if whole := balanced(plan.Duel, sides, count); count > whole {
			count -= count % whole
		}
		c.Counts[t.Name] = count
	}
	return c, nil
}

// countWarmup derives the counts from the rates of a warm-up block.
func countWarmup(plan *record.Plan, b *record.Block, sides int, c *record.Calibration) {
	duels := []*record.DuelRecord{b.Duel}
	if b.Upgrade != nil {
		duels = append(duels, b.Upgrade.Before, b.Upgrade.After)
	}
	for _, duel := range duels {
		if duel == nil {
			continue
		}
		if duel == b.Duel {
			c.Reading = duel.Reading
		}
		for _, t := range duel.Types {
			if t.Exchanges > 0 && t.Seconds > 0 {
				c.Counts[t.QueryType] = exchanges(plan.Duel, sides, float64(t.Exchanges)/t.Seconds)
			}
		}
	}
	for _, p := range b.Phases {
		if !plan.Queries.Solo || p.Part != record.Solo || p.Phase != "query" || p.Count == 0 || p.End <= p.Begin {
			continue
		}
		// As many as fill the time of the fastest variant.
		count := int(math.Ceil(float64(p.Count)/(p.End-p.Begin)*plan.Queries.Seconds/10)) * 10
		count = min(max(count, 20), max(plan.Queries.MaxCount, 1))
		if plan.Queries.Count != nil {
			count = *plan.Queries.Count
		}
		c.SoloCounts[p.QueryType] = max(c.SoloCounts[p.QueryType], count)
	}
}

// exchanges returns how many exchanges a block has at a rate a second: as many as fill its time, but at least
// `min_exchanges`. If that would take longer than max_seconds: as many as fit into max_seconds, but at least
// `floor_exchanges`.
func exchanges(duel record.Duel, sides int, rate float64) int {
	count := rate * duel.Seconds
	if least := float64(duel.MinExchanges); count < least {
		count = math.Max(math.Min(least, rate*duel.MaxSeconds), float64(duel.FloorExchanges))
	}
	whole := float64(balanced(duel, sides, int(count)))
	return int(math.Ceil(count/whole) * whole)
}

// balanced returns the smallest number of exchanges in which every sitting has equally many, and each side is
// asked first equally often: whole cycles (B C C B) in each sitting. If count is smaller than that, bursts
// are enough for an even number of sittings, since every other sitting asks in the mirrored order.
func balanced(duel record.Duel, sides, count int) int {
	sittings := max(1, duel.Sittings)
	whole := sittings * exchange.Cycle(sides, duel.InFlight)
	if sittings%2 == 0 && count < whole {
		return sittings * exchange.Burst(duel.InFlight)
	}
	return whole
}
