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
