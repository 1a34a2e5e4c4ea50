package run

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tsduel/host/machine"
	"tsduel/host/noise"
	"tsduel/host/record"
)

// hosts are the driver's own host and those that are lent to it, with what is the same for all blocks.
type hosts struct{ record.Spec }

// checkHost refuses a run for which this host is not ready, and reads where the programs are.
func (h *hosts) checkHost() (err error) {
	for _, name := range []string{"data", "bench"} {
		if why := record.WhyNotOurs(filepath.Join(h.Scratch, name)); why != "" {
			return record.UserError("%s", why)
		}
	}
	if h.Builds, err = record.LoadBuilds(h.RunDir, h.Plan); err != nil {
		return err
	}
	// Data and queries are counted when they are generated.
	free, _ := record.IsFull(h.Scratch)
	needed := h.Plan.Estimate.ResultsBytes
	if h.Lent == nil { // else the database is on hosts that checkLent looks at
		needed += h.Plan.Estimate.DatabaseBytes
		free += record.UsedBytes(filepath.Join(h.Scratch, "data")) // an interrupted block left it; the next one wipes it
	}
	if free < needed {
		return record.UserError("%d MiB are free in %s, and the database and the results need about %d MiB: "+
			"free some, or point TSDUEL_CACHE to a larger disk", free>>20, h.Scratch, needed>>20)
	}
	return nil
}

// describe writes raw/HOST.json of this host, with what is pinned.
func (d *driver) describe() error {
	facts, err := noise.Describe(d.Scratch)
	if err != nil {
		return err
	}
	facts.Host, facts.Pin = d.share.Host, record.Pin{Mode: "off", Server: []int{}, Client: []int{}}
	wanted := d.Plan.Host.Pin
	if d.Lent != nil {
		wanted = record.Pin{Mode: "apart"}
	}
	if d.kind.Equip != nil {
		if err := d.kind.Equip(facts, wanted); err != nil {
			return err
		}
	}
	if d.Lent != nil {
		facts.Instructions, facts.InstructionsWhy = false, apartWhy
	}
	d.Host = *facts
	return d.writeFacts(facts, len(d.blocks) > 0)
}

// A restarted machine may have so much more or less memory, as a part of it: its firmware takes some.
const memoryDiffers = 0.01

// writeFacts writes raw/HOST.json. A run that has blocks must go on on the same machine: its blocks cannot be
// compared with those of another machine. A new kernel, boot or environment is only told.
func (h *hosts) writeFacts(now *record.Facts, hasBlocks bool) error {
	path := record.RawDir(h.RunDir, now.Host) + ".json"
	var before record.Facts
	switch err := record.ReadJSON(path, &before); {
	case !hasBlocks || os.IsNotExist(err) || record.IsCutShort(err):
		return record.WriteJSON(path, now)
	case err != nil:
		return record.Unreadable(path, err)
	}
	var changed []string
	compare := func(what string, from, to any) {
		if from := fmt.Sprint(from); from != fmt.Sprint(to) {
			changed = append(changed, fmt.Sprintf("%s from %s to %v", what, from, to))
		}
	}
	compare("the architecture", before.Architecture, now.Architecture)
	compare("the CPU", before.CPUModel, now.CPUModel)
	compare("the number of CPUs", before.CPUs, now.CPUs)
	if math.Abs(float64(before.MemoryBytes-now.MemoryBytes)) > memoryDiffers*float64(before.MemoryBytes) {
		mib := func(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
		compare("the memory", mib(before.MemoryBytes), mib(now.MemoryBytes))
	}
	compare("the CPUs of the servers", cpus(before.Pin.Server), cpus(now.Pin.Server))
	compare("the CPUs of the client", cpus(before.Pin.Client), cpus(now.Pin.Client))
	if len(changed) > 0 {
		return record.UserError("this run cannot go on here: %s has changed %s since its blocks were measured, so new "+
			"blocks cannot be compared with them; plan a new run, or go on as before",
			now.Host, strings.Join(changed, ", "))
	}
	variables := map[string]string{}
	maps.Copy(variables, before.Environment)
	maps.Copy(variables, now.Environment)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !strings.HasPrefix(name, "FAKE_") { // of tests
			compare("the variable "+name, cmp.Or(before.Environment[name], "nothing"), cmp.Or(now.Environment[name], "nothing"))
		}
	}
	compare("the kernel", before.Kernel, now.Kernel)
	compare("its start (boot id)", before.BootID, now.BootID)
	if len(changed) > 0 {
		h.tell(fmt.Sprintf("%s has changed %s since the last blocks of this run; it goes on",
			now.Host, strings.Join(changed, ", ")))
	}
	return record.WriteJSON(path, now)
}

func cpus(list []int) string {
	if len(list) == 0 {
		return "none in particular"
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(list)), ","), "[]")
}

// blameFullDisk blames the variant of a failed block if its files are larger than estimated. If they are not
// and a disk is full, it returns an error: the block is run again when there is room.
func (h *hosts) blameFullDisk(b *record.Block) error {
	for where, m := range h.machines() {
		var disk machine.Disk
		if m.Disk(h.Scratch, &disk) != nil || !disk.Full || disk.Data <= h.Plan.Estimate.DatabaseBytes {
			continue
		}
		b.Failures[0].Message += fmt.Sprintf("; the disk of %s%s is full: its files take %d MiB, and %d were expected",
			h.Scratch, where, disk.Data>>20, h.Plan.Estimate.DatabaseBytes>>20)
		if where == "" { // make room for the record of the block
			return record.Wipe(filepath.Join(h.Scratch, "data"))
		}
		return nil
	}
	return h.whyFull()
}

func (h *hosts) whyFull() error {
	for where, m := range h.machines() {
		for _, dir := range []string{h.raw(""), h.Scratch} {
			var disk machine.Disk
			if m.Disk(dir, &disk) != nil || !disk.Full {
				continue
			}
			remedy := "free some there"
			if dir == h.Scratch && where == "" {
				remedy += ", or point TSDUEL_CACHE to a larger disk"
			}
			return record.UserError("the disk of %s%s is full (%d MiB are free): %s; no finished block is lost. "+
				"To go on: make %s RUN=%s", dir, where, disk.Free>>20, remedy, h.Plan.Kind, filepath.Base(h.RunDir))
		}
	}
	return nil
}
