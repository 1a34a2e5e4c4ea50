package block

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tsduel/host/exchange"
	"tsduel/host/record"
	"tsduel/host/servers"
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

// keep writes the exchanges into the table, and adds what is known of them to the record of the duel.
func (a *asking) keep() error {
	result, sides := a.result, a.job.Sides
	prefix := fmt.Sprintf("%s,%d,", a.queryType, a.index)
	if err := a.exchanges.add(prefix, a.sent[a.queryType], sides, a.in.Plan.Variants, result.Exchanges); err != nil {
		return err
	}
	a.sent[a.queryType] += len(result.Exchanges)
	kept := record.DuelType{QueryType: a.queryType, Sitting: a.index, Exchanges: len(result.Exchanges),
		Compared: len(result.Exchanges), Differences: result.Differences, FirstQuery: a.first,
		Series: result.Series, Points: result.Points, Seconds: result.Elapsed.Seconds(),
		Turns: result.Turns, TurnS: result.TurnTime.Seconds(), CPUNS: map[string]int64{},
		ClientCPUNS: result.ClientCPU, Stopped: result.Stopped, Counters: map[string]map[string]float64{}}
	if a.in.Host.Instructions {
		kept.Instructions = map[string]int64{}
	}
	for i, side := range result.Sides {
		name := sides[i].Name
		var used servers.Usage // nil if the variant was not asked to the end
		if marks := a.marks[name]; len(marks) > 1 {
			used = marks[len(marks)-1].Since(marks[0])
		}
		if !a.in.Plan.Deployed() || len(used) == len(a.in.variants[name].Components) { // else it is not known
			kept.CPUNS[name] = side.CPU
		}
		a.in.byRole(&kept.CPUNSByRole, name, used)
		if kept.Instructions != nil {
			kept.Instructions[name] = side.Instructions
		}
		kept.Empty += side.Empty
		if side.Failure != "" {
			kept.Errors++
		}
		if i > 0 {
			kept.Compared = min(kept.Compared, side.Compared)
		}
	}
	a.record.Types = append(a.record.Types, kept)
	if result.First != nil {
		result.First.What = a.in.Hidden.Mask(result.First.What)
		for i, body := range result.First.Bodies {
			result.First.Bodies[i] = a.in.Hidden.Mask(body)
		}
		result.First.QueryType = a.queryType
		a.differences = append(a.differences, *result.First)
	}
	share := float64(result.ClientCPU) / float64(result.Elapsed) / float64(max(1, len(a.in.Host.Pin.Client)))
	if share > bottleneck {
		a.in.note("", a.queryType, fmt.Sprintf("the client used %.0f %% of its CPUs: it is the bottleneck here", 100*share))
	}
	return nil
}
