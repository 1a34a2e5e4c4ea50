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
	warm := slices.IndexFunc(d.rows, func(row record.BlockRow) bool { return row.Kind == "warmup" })
	if d.spec.Calibration != nil || warm < 0 {
		return nil
	}
	c := &record.Calibration{}
	err := record.ReadJSON(d.raw("calibration.json"), c)
	if os.IsNotExist(err) {
		if d.kind.Calibrate != nil {
			c, err = d.kind.Calibrate(d.plan, d.raw(d.rows[warm].Name()))
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
	names := d.plan.CellNames()
	if len(names) == 1 {
		return d.countsOf(names[0])
	}
	c := &record.Calibration{Cells: map[string]*record.Calibration{}}
	for _, cell := range names {
		of, err := d.countsOf(cell)
		if err != nil {
			return nil, err
		}
		c.Cells[cell] = of
	}
	return c, nil
}

func (d *driver) countsOf(cell string) (*record.Calibration, error) {
	c, plan := &record.Calibration{Counts: map[string]int{}, SoloCounts: map[string]int{}}, d.plan.In(cell)
	// The least number of exchanges in which no variant is asked first more often than another.
	cycle := exchange.Cycle(len(plan.Variants), plan.Duel.InFlight)
	turns, warmup := 0, record.BlockRow{}
	for _, row := range d.rows {
		if row.Cell != cell {
			continue
		}
		turns++
		if b := d.blocks[row.Block]; row.Kind == "warmup" {
			warmup = row
			if b != nil {
				countWarmup(plan, b, cycle, c)
			}
		}
	}
	for _, t := range slices.Concat(plan.Queries.Types, plan.Queries.Windowed) {
		count, solo := c.Counts[t.Name], c.SoloCounts[t.Name]
		if count == 0 && d.refused(warmup) {
			continue // nobody was left to exchange with
		}
		if (plan.Duel.Enabled && count == 0) || (plan.Queries.Solo && solo == 0) {
			return nil, record.FailedError("the warm-up block%s did not get through %s, so no count could be chosen: see %s", ofCell(cell), t.Name, d.raw(warmup.Name()+"/block.json"))
		}
		if !plan.Duel.Enabled {
			continue
		}
		// Every block has a slice of its own of the file, and the shortest file is enough for all.
		for _, file := range d.spec.Workload.In(cell).Queries {
			if file.Type == t.Name {
				count = min(count, file.Count/turns)
			}
		}
		if count == 0 {
			return nil, record.UserError("the files of %s have fewer queries than there are blocks: make queries.max_count larger", t.Name)
		}
		if count > cycle {
			count -= count % cycle
		}
		c.Counts[t.Name] = count
	}
	return c, nil
}

func countWarmup(plan *record.Plan, b *record.Block, cycle int, c *record.Calibration) {
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
				c.Counts[t.QueryType] = exchanges(plan.Duel, cycle, float64(t.Exchanges)/t.Seconds)
			}
		}
	}
	if !plan.Queries.Solo {
		return
	}
	for _, p := range b.Phases {
		if p.Part != record.Solo || p.Phase != "query" || p.Count == 0 || p.End <= p.Begin {
			continue
		}
		// What fills the time for the fastest variant.
		count := int(math.Ceil(float64(p.Count)/(p.End-p.Begin)*plan.Queries.Seconds/10)) * 10
		count = min(max(count, 20), max(plan.Queries.MaxCount, 1))
		if plan.Queries.Count != nil {
			count = *plan.Queries.Count
		}
		c.SoloCounts[p.QueryType] = max(c.SoloCounts[p.QueryType], count)
	}
}

// refused says that in the warm-up a variant did not start on what the baseline had left.
func (d *driver) refused(warmup record.BlockRow) bool {
	b := d.blocks[warmup.Block]
	return b != nil && slices.ContainsFunc(d.plan.Variants, func(v record.Variant) bool { return b.Refused(v.Name) != "" })
}

// exchanges is how many a phase has at so many a second: as many as fill it, at least `least`; where those would take longer than
// longest_s, what fits into that, but at least `fewest`. Whole cycles (B C C B), so that all orders are as frequent.
func exchanges(duel record.Duel, cycle int, rate float64) int {
	count := rate * duel.Seconds
	if least := float64(duel.Least); count < least {
		count = math.Max(math.Min(least, rate*duel.LongestS), float64(duel.Fewest))
	}
	return int(math.Ceil(count/float64(cycle))) * cycle
}
