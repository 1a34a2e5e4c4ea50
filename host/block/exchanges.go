package block

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

type table struct{ *record.Packed }

// createTable begins a file with its columns, and one of ns for each variant.
func createTable(path, columns string, variants ...record.Variant) (*table, error) {
	packed, err := record.CreatePacked(path)
	if err != nil {
		return nil, err
	}
	for _, v := range variants {
		columns += "," + v.Name + "_ns"
	}
	_, err = packed.WriteString(columns + "\n")
	return &table{packed}, err
}

// add writes the exchanges of a phase. A variant that did not answer has an empty field.
func (t *table) add(prefix string, from int, sides []exchange.Side, variants []record.Variant,
	exchanges []exchange.Exchange) error {
	var places []int // of the sides, among the variants
	for _, side := range sides {
		at := slices.IndexFunc(variants, func(v record.Variant) bool { return v.Name == side.Name })
		places = append(places, at)
	}
	for k, x := range exchanges {
		order, ns := "", make([]string, len(variants))
		for _, side := range x.Order {
			order += strconv.Itoa(places[side-'0'])
		}
		for side, place := range places {
			if x.NS[side] > 0 {
				ns[place] = strconv.FormatInt(x.NS[side], 10)
			}
		}
		size := max(x.Lines, x.Bytes) // a batch has no answer, a query no lines
		fmt.Fprintf(t, "%s%d,%s,%d,%s\n", prefix, from+k, order, size, strings.Join(ns, ","))
	}
	return t.Flush()
}

// typical is the 10 % trimmed mean of ln(time of a side / time of the first side). ok: there is a pair.
func typical(exchanges []exchange.Exchange, side int) (logRatio float64, ok bool) {
	var logs []float64
	for _, x := range exchanges {
		if x.NS[0] > 0 && x.NS[side] > 0 {
			logs = append(logs, math.Log(float64(x.NS[side])/float64(x.NS[0])))
		}
	}
	slices.Sort(logs)
	cut := len(logs) / 10
	return mean(logs[cut : len(logs)-cut]), len(logs) > 0
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

func (d *duel) keep(queryType string, first int, sides []exchange.Side, result *exchange.Result) {
	kept := record.DuelType{QueryType: queryType, Sitting: d.index, Exchanges: len(result.Exchanges),
		Compared: len(result.Exchanges), Differences: result.Differences, FirstQuery: first,
		Series: result.Series, Points: result.Points, Seconds: result.Elapsed.Seconds(), CPUNS: map[string]int64{},
		ClientCPUNS: result.ClientCPU,
		Stopped:     result.Stopped, Counters: map[string]map[string]float64{}}
	if d.Host.Instructions {
		kept.Instructions = map[string]int64{}
	}
	for i, side := range result.Sides {
		name := sides[i].Name
		kept.CPUNS[name] = side.CPU
		var used usage // nil if the variant was not asked to the end
		if marks := d.marks[name]; len(marks) > 1 {
			used = marks[len(marks)-1].since(marks[0])
		}
		d.byRole(&kept.CPUNSByRole, name, used)
		if kept.Instructions != nil {
			kept.Instructions[name] = side.Instructions
		}
		kept.Empty += side.Empty
		if side.Failure != "" {
			kept.Errors++
		}
		if i > 0 {
			kept.Compared = min(kept.Compared, side.Compared)
			if logRatio, ok := typical(result.Exchanges, i); ok {
				key := [2]string{name, d.state(queryType)}
				d.typical[key] = append(d.typical[key], logRatio)
			}
		}
	}
	d.record.Types = append(d.record.Types, kept)
	if result.First != nil {
		result.First.QueryType = queryType
		d.differences = append(d.differences, *result.First)
	}
	share := float64(result.ClientCPU) / float64(result.Elapsed) / float64(max(1, len(d.Host.Pin.Client)))
	if share > bottleneck {
		d.note("", queryType, fmt.Sprintf("the client used %.0f %% of its CPUs: it is the bottleneck here", 100*share))
	}
}

// ratios keeps the ratios of the exchanges for the forecast.
func (d *duel) ratios() {
	baseline, types := d.Plan.Variants[0].Name, map[string]int{} // by state
	for _, queryType := range d.types {
		types[d.state(queryType)]++
	}
	for _, v := range d.Plan.Variants[1:] {
		for state, n := range types {
			logs := d.typical[[2]string{v.Name, state}]
			if d.variants[v.Name].failed || len(logs) < n*d.record.Sittings {
				continue
			}
			var cpu [2]float64
			for _, t := range d.record.Types {
				if d.state(t.QueryType) == state {
					cpu[0] += float64(t.CPUNS[baseline])
					cpu[1] += float64(t.CPUNS[v.Name])
				}
			}
			d.block.Ratio(v.Name, state+"_typical_ms", mean(logs))
			d.block.Ratio(v.Name, state+"_cpu_us", math.Log(cpu[1]/cpu[0]))
		}
	}
}

// state begins the names of a query type's metrics. In an upgrade it has the window: the suffix after @.
func (d *duel) state(queryType string) string {
	if d.when == "" {
		return "duel"
	}
	if _, window, _ := strings.Cut(queryType, "@"); window != "" {
		return "upgrade_" + window
	}
	return "upgrade_right_after"
}
