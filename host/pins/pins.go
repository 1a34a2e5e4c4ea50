// Package pins gives CPUs to the servers and to the client.
package pins

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"tsduel/host/exchange"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// Equip adds to facts the CPUs of servers and client, and whether the kernel counts instructions.
func Equip(facts *record.Facts, wanted record.Pin) (err error) {
	facts.Pin, err = split(wanted, proc.Siblings(), facts.CPULimit)
	if client := facts.Pin.Client; err == nil && len(client) > 0 {
		undo, refused := proc.Pin(client)
		switch {
		case refused == nil:
			err = undo()
		case wanted.Mode == "fixed":
			err = record.UserError("host.pin: %v", refused)
		default:
			facts.Pin.Server, facts.Pin.Client = []int{}, []int{}
			facts.Pin.Reason = "nothing is pinned: " + refused.Error()
		}
	}
	count, why := exchange.CountInstructions(os.Getpid())
	count.Close()
	if facts.Instructions = why == nil; why != nil {
		facts.InstructionsWhy = why.Error()
	}
	return err
}

// split gives a quarter of the CPUs that a control group allows to the client, in whole cores, and the rest to
// the servers: all of one kind and one NUMA node (docs/blocks.md).
func split(wanted record.Pin, cores [][]int, limit *float64) (record.Pin, error) {
	pin := record.Pin{Mode: wanted.Mode, Server: []int{}, Client: []int{}}
	allowed := slices.Concat(cores...)
	switch wanted.Mode {
	case "off":
		pin.Reason = "host.pin is off"
		return pin, nil
	case "fixed":
		for _, cpu := range slices.Concat(wanted.Server, wanted.Client) {
			if !slices.Contains(allowed, cpu) {
				return pin, record.UserError("host.pin names CPU %d, and this machine lets us have %v", cpu, allowed)
			}
		}
		pin.Server, pin.Client = wanted.Server, wanted.Client
		return pin, nil
	}
	cores, pin.Reason = proc.Alike(cores)
	allowed = slices.Concat(cores...)
	if limit != nil && *limit < float64(len(allowed)) {
		most := int(math.Max(1, *limit))
		pin.Reason = fmt.Sprintf("a control group allows %.3g of %d CPUs, and %d was taken as their number", *limit,
			len(allowed), most)
		var fewer [][]int
		for _, core := range cores {
			if core = core[:min(len(core), most)]; len(core) > 0 {
				fewer, most = append(fewer, core), most-len(core)
			}
		}
		cores = fewer
	}
	if len(cores) == 1 { // half a core for each is better than none
		cores = slices.Collect(slices.Chunk(cores[0], 1))
	}
	server, client, why := proc.Split(cores)
	if why != "" {
		pin.Reason = "nothing is pinned: " + cmp.Or(pin.Reason, why)
		return pin, nil
	}
	pin.Server, pin.Client = server, client
	return pin, nil
}

// Do does something while this process is on the client's CPUs, if there are any.
func Do(client []int, do func() error) (err error) {
	if len(client) == 0 {
		return do()
	}
	undo, err := proc.Pin(client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undo()) }()
	return do()
}
