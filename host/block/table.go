package block

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

// bottleneck is the share of its CPUs from which on a client, and not a server, is measured.
const bottleneck = 0.8

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
		first, size := "", x.Bytes
		if x.Lines > 0 { // a batch
			first, size = fmt.Sprintf("%t,", x.First), x.Lines
		}
		fmt.Fprintf(t, "%s%d,%s,%s%d,%s\n", prefix, from+k, order, first, size, strings.Join(ns, ","))
	}
	return t.Flush()
}
