package run

import (
	"tsduel/host/proc"
	"tsduel/host/record"
)

// emitRunStart tells all that a view needs to know of the plan, so that the view needs only the events.
func (d *driver) emitRunStart() {
	finished, rows := 0, map[string]int{} // rows by kind
	for _, row := range d.rows {
		rows[row.Kind]++
		if d.blocks[row.Block] != nil {
			finished++
		}
	}
	price, since := 0.0, 0.0
	if d.Plan.Place.Price != nil {
		price = d.Plan.Place.Price.Hour
	}
	if stat, err := proc.FS().Stat(); err == nil {
		since = float64(stat.BootTime) // a rented machine is paid for since then
	}
	d.Events.Emit("run-start", record.Fields{"run": d.Plan.Run, "kind": d.Plan.Kind,
		"blocks": rows["measured"], "variants": len(d.Plan.Variants),
		"planned": len(d.rows) - rows["spare"], "finished": finished,
		"block_s": d.Plan.Duration.BlockS, "workload_s": d.Plan.Duration.WorkloadS,
		"place": d.Plan.Place.Kind, "price_h": price, "machine_since": since})
}

// phases returns how many phases a block will have: a view's progress bar needs it.
func (d *driver) phases(row record.BlockRow) int {
	variants, types, warmup := len(row.Order), len(row.QueryTypes), row.Kind == "warmup"
	plan := d.Plan
	switch {
	case plan.Kind != "tsbs" && (d.Calibration == nil || warmup):
		return variants
	case plan.Kind != "tsbs":
		return variants * len(d.Calibration.Rows)
	case plan.Design.StartFrom == "baseline":
		// The load; copy, start, ingest, settle, and a candidate's downgrade; two duels, one over two windows.
		return 5 + 5*variants - 1 + 2*4 + 3*types
	}
	phases, sittings, loads := 0, max(1, plan.Duel.Sittings), max(1, plan.Duel.LoadSittings)
	if warmup {
		sittings, loads = 1, 1
	}
	if plan.Design.Load != record.InDuel || warmup && plan.Workload.Alone != nil {
		phases += variants * 5 // canary, start, load, settle, stop
		if plan.Queries.Solo {
			phases += variants * types
		}
	}
	if plan.Duel.Enabled {
		phases += 2 + sittings*(2+types) // idle twice; start, stop
		if plan.Duel.Load {
			phases += 4 * loads // start, exchange, settle, stop
		}
	}
	if plan.Mixed != nil {
		phases += 3 * variants // start, mixed, stop
	}
	if plan.Capacity != nil {
		phases += (2 + len(plan.Capacity.Ladder)) * variants
	}
	return phases
}
