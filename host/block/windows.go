package block

import (
	"time"

	"tsduel/host/noise"
	"tsduel/host/openloop"
	"tsduel/host/proc"
	"tsduel/host/record"
)

func operation(stream openloop.Stream) string {
	if stream.Lines != nil {
		return "batch"
	}
	return "query"
}

// windows tells at the end of each window how the servers are, and how fast they answered in it. It is an
// event, not a file of the block: what hours have shown survives a kill of the block.
func windows(v *variant, streams []openloop.Stream) func([]*openloop.Result) {
	began := time.Now()
	last, spent := began, int64(0)
	if used, err := v.CPU(); err == nil {
		spent = used.Sum()
	}
	facts, err := noise.Describe(v.in.Scratch)
	if err != nil {
		facts = &record.Facts{} // nobody knows a limit
	}
	if own := len(v.in.Host.Pin.Server); own > 0 {
		facts.CPUs = own // what Describe sees are the client's
	}
	limits := v.in.Plan.Limits
	if most := int64(len(v.Components)) * limits.MemoryMb << 20; most > 0 {
		facts.MemoryBytes = min(facts.MemoryBytes, most)
	}
	cpus := float64(facts.CPUs)
	if most := float64(len(v.Components)) * limits.Cpus; most > 0 {
		cpus = min(cpus, most)
	}
	return func(results []*openloop.Result) {
		now := time.Now()
		used, err := v.CPU()
		if err != nil {
			return // a server has ended, which its phase says
		}
		fields := record.Fields{"block": v.in.Row.Block, "variant": v.Name, "life": record.Epoch(began),
			"elapsed_s": now.Sub(began).Seconds(), "cpu_cores": float64(used.Sum()-spent) / float64(now.Sub(last)),
			"cpu_limit": cpus}
		// What cannot be read is left out.
		if sum, _ := v.Kernel(); sum.RSS >= 0 {
			fields["rss_bytes"], fields["rss_limit"] = sum.RSS, facts.MemoryBytes
		}
		files := proc.Files{}
		for _, s := range v.Running {
			if own, err := proc.OpenFiles(s.Pid); err == nil && own.Open > files.Open {
				files = *own
				fields["open_files"], fields["open_limit"] = files.Open, files.Most
			}
		}
		free, _ := record.IsFull(v.in.Scratch)
		data := record.UsedBytes(v.Data)
		fields["disk_bytes"], fields["disk_limit"] = data, data+free
		for i, result := range results {
			if result.Response.TotalCount() > 0 {
				fields[operation(streams[i])+"_p99_ms"] = float64(result.Response.ValueAtQuantile(99)) / 1e6
			}
		}
		last, spent = now, used.Sum()
		v.in.Events.Emit("window", fields)
	}
}
