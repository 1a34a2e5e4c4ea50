package block

import (
	"fmt"
	"math"
	"os"
	"slices"

	"tsduel/host/exchange"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// Equip adds to what a machine is what duels take from it: the CPUs of the servers and of the client, and whether
// instructions are counted. An error is the user's: CPUs that are not there.
func Equip(facts *record.Facts, wanted record.Pin) (err error) {
	facts.Pin, err = pins(wanted, proc.Siblings(), facts.CPULimit)
	if client := facts.Pin.Client; err == nil && len(client) > 0 {
		undo, refused := proc.Pin(client)
		switch {
		case refused == nil:
			err = undo()
		case wanted.Mode == "fixed":
			err = record.UserError("host.pin: %v", refused)
		default:
			facts.Pin.Server, facts.Pin.Client, facts.Pin.Reason = []int{}, []int{}, "nothing is pinned: "+refused.Error()
		}
	}
	count, why := exchange.CountInstructions(os.Getpid())
	count.Close()
	if facts.Instructions = why == nil; why != nil {
		facts.InstructionsWhy = why.Error()
	}
	return err
}

// pins chooses: a quarter of the CPUs for the client, whole cores where there are two (MEASUREMENT.md 3). A control
// group that allows fewer CPUs than there are makes that the number.
func pins(wanted record.Pin, cores [][]int, limit *float64) (record.Pin, error) {
	pin := record.Pin{Mode: wanted.Mode, Server: []int{}, Client: []int{}}
	if wanted.Mode == "off" {
		pin.Reason = "host.pin is off"
		return pin, nil
	}
	allowed := slices.Concat(cores...)
	if wanted.Mode == "apart" {
		pin.Client, pin.Reason = allowed, "nothing is pinned: no component shares this host with the client"
		return pin, nil
	}
	if wanted.Mode == "fixed" {
		for _, cpu := range slices.Concat(wanted.Server, wanted.Client) {
			if !slices.Contains(allowed, cpu) {
				return pin, record.UserError("host.pin names CPU %d, and this machine lets us have %v", cpu, allowed)
			}
		}
		pin.Server, pin.Client = wanted.Server, wanted.Client
		return pin, nil
	}
	if limit != nil && *limit < float64(len(allowed)) {
		most := int(math.Max(1, *limit))
		pin.Reason = fmt.Sprintf("a control group allows %.3g of %d CPUs, and %d was taken as their number", *limit, len(allowed), most)
		var fewer [][]int
		for _, core := range cores {
			if core = core[:min(len(core), most)]; len(core) > 0 {
				fewer, most = append(fewer, core), most-len(core)
			}
		}
		cores = fewer
	}
	if len(cores) == 1 { // half a core for each is worse than whole ones, and better than none
		whole := cores[0]
		cores = nil
		for _, cpu := range whole {
			cores = append(cores, []int{cpu})
		}
	}
	server, client, why := proc.Split(cores)
	if why != "" {
		if pin.Reason != "" {
			why = pin.Reason
		}
		pin.Reason = "nothing is pinned: " + why
		return pin, nil
	}
	pin.Server, pin.Client = server, client
	return pin, nil
}
