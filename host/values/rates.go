package values

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tsduel/host/record"
)

// rates adds the figures of the parts at fixed rates. A void phase says nothing about the server, and gives no value.
func (b *block) rates() {
	for _, name := range b.alive {
		for _, phase := range b.Mixed[name].Phases {
			if phase.Void == "" {
				b.mixed(name, phase)
			}
		}
	}
	for _, name := range b.alive {
		phases, ladder := b.Capacity[name].Phases, b.plan.Capacity
		for _, phase := range phases {
			if phase.Void == "" && phase.Streams[0].Planned > 0 {
				b.value(name, "capacity_response_ms", strconv.FormatFloat(phase.Rate, 'g', 10, 64)+"/s",
					float64(phase.Streams[0].ResponseNS[ladder.Percentile])/1e6)
			}
		}
		if len(phases) > 0 {
			b.value(name, "capacity_rate", "", capacity(phases, ladder.Percentile, ladder.WithinMS))
		}
	}
}

func (b *block) mixed(variant string, phase record.RatePhase) {
	add := func(metric string, value float64) { b.value(variant, "mixed_"+metric, "", value) }
	late := 0.0
	for _, s := range phase.Streams {
		late = max(late, float64(s.LatenessNS["p999"])/1e6)
		if s.Operation == "query" {
			add("query_rate", float64(s.Answered)/phase.Seconds)
		}
		if s.Planned == 0 {
			continue // starts are drawn at random: at a low rate a phase may have none
		}
		for p, ns := range s.ResponseNS {
			add(fmt.Sprintf("%s_%s_ms", s.Operation, p), float64(ns)/1e6)
		}
		for _, p := range []string{"p50", "p99"} {
			add(fmt.Sprintf("%s_service_%s_ms", s.Operation, p), float64(s.ServiceNS[p])/1e6)
		}
	}
	add("write_rate", float64(phase.Samples)/phase.Seconds)
	add("cpu_cores", float64(phase.CPUNS)/1e9/phase.Seconds)
	add("rss_bytes", known(float64(phase.RSSBytes), phase.RSSBytes >= 0))
	add("lateness_p999_ms", late)
	add("client_cpu_ratio", phase.ClientShare)
	for _, counter := range []string{"merges", "rows_merged", "slow_inserts"} {
		value, has := phase.Counters[counter]
		add(counter, known(value, has))
	}
}

// capacity is the rate at which a percentile of response times crosses the bound, after the last rung that was held.
// Between this rung and the next it is interpolated in the logs of rate and time, so that it is not limited to the
// ladder's steps. It is not known if no rung was held, if the last rung was, or if the next one is void.
func capacity(phases []record.RatePhase, percentile string, withinMS float64) float64 {
	last := -1
	for i, phase := range phases {
		if phase.Held && phase.Streams[0].Planned > 0 {
			last = i
		}
	}
	if last < 0 || last+1 == len(phases) || phases[last+1].Void != "" {
		return math.NaN()
	}
	low, high := phases[last], phases[last+1]
	below := float64(low.Streams[0].ResponseNS[percentile]) / 1e6
	above := float64(high.Streams[0].ResponseNS[percentile]) / 1e6
	if above <= withinMS { // some were not answered at all
		return low.Rate
	}
	share := math.Log(withinMS/below) / math.Log(above/below)
	return math.Exp(math.Log(low.Rate) + share*math.Log(high.Rate/low.Rate))
}

// upgrade adds the figures of a block of variants that start on the baseline's data; of a variant that failed, or did
// not start, those from before that.
func (b *block) upgrade(u *record.UpgradeRecord) error {
	for _, v := range b.plan.Variants {
		b.upgradedAlone(u, v.Name)
	}
	var started []string
	for _, name := range b.alive {
		if u.Start[name].Refused == "" {
			started = append(started, name)
		}
	}
	b.alive = started
	if len(started) == 0 || started[0] != b.baseline() {
		return nil
	}
	states := map[string]string{"": "right_after", "half": "half", "new": "new"} // by the window, behind @
	for phase, d := range map[string]*record.DuelRecord{"before": u.Before, "after": u.After} {
		if d == nil {
			continue
		}
		all, err := b.readExchanges("upgrade/" + phase + "/exchanges.csv.gz")
		if err != nil {
			return err
		}
		for _, of := range all {
			queryType, window, _ := strings.Cut(of.queryType, "@")
			b.typical("upgrade_"+states[window]+"_typical_ms", queryType, of)
			b.estimated("upgrade_"+states[window]+"_total_ms", queryType, of, mean, total)
		}
		for window, state := range states {
			var own []record.DuelType
			for _, t := range d.Types {
				if name, of, _ := strings.Cut(t.QueryType, "@"); of == window {
					t.QueryType = name
					own = append(own, t)
				}
			}
			byType(own, func(subject string, types []record.DuelType) {
				b.perOperation("upgrade_"+state+"_cpu_us", subject, clocks(types, func(t record.DuelType) clock {
					return clock{t.Sitting, int64(t.Exchanges), floats(t.CPUNS)}
				}), 1e3)
			})
		}
	}
	return nil
}

// upgradedAlone adds what a variant did alone.
func (b *block) upgradedAlone(u *record.UpgradeRecord, name string) {
	add := func(metric string, value float64) { b.value(name, "upgrade_"+metric, "", value) }
	if start, has := u.Start[name]; has && start.Refused == "" && start.QuietS > 0 {
		add("start_seconds", start.StartS)
		add("first_answer_seconds", start.FirstAnswerS)
		add("quiet_seconds", start.QuietS)
		add("migration_cpu_seconds", float64(start.CPUNS)/1e9)
		add("migration_written_bytes", known(float64(start.WrittenBytes), start.WrittenBytes >= 0))
	}
	if ns, drained := u.Ingest[name].CPUNS["drained"]; drained {
		_, rate, _ := loadResults((&alone{block: b, variant: name}).file("upgrade/load.json"))
		add("ingest_rate", rate)
		add("ingest_cpu_seconds", float64(ns)/1e9)
		written := u.Ingest[name].WrittenBytes
		add("ingest_written_bytes", known(float64(written), written >= 0))
	}
	if size, has := u.Sizes[name]["disk_bytes"]; has {
		add("disk_bytes", float64(size))
	}
	if down, has := u.Downgrade[name]; has {
		starts := 0.0
		if down.Starts {
			starts = 1
		}
		add("downgrade_starts", starts)
		for _, answers := range down.Answers {
			b.value(name, "upgrade_downgrade_same", answers.Window, float64(answers.Same)/float64(max(1, answers.Asked)))
		}
	}
}
