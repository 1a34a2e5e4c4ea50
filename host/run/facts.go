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

	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// checkHost refuses a run for which this host is not ready, and reads where the programs are.
func (h *host) checkHost() (err error) {
	for _, name := range []string{"data", "bench"} {
		if why := record.WhyNotOurs(filepath.Join(h.Scratch, name)); why != "" {
			return record.UserError("%s", why)
		}
	}
	if h.Builds, err = record.LoadBuilds(h.RunDir, h.Plan); err != nil {
		return err
	}
	if err := proc.CanLimit(proc.LimitsOf(h.Plan.Limits)); err != nil {
		return record.UserError("limits: no control group can be made here (%v): run as root, or where the controllers cpu "+
			"and memory are delegated to you, or leave limits out", err)
	}
	// Data and queries are counted when they are generated.
	free, _ := record.IsFull(h.Scratch)
	needed := h.Plan.Estimate.ResultsBytes + h.Plan.Estimate.DatabaseBytes
	free += record.UsedBytes(filepath.Join(h.Scratch, "data")) // an interrupted block left it; the next one wipes it
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
	if d.kind.Equip != nil {
		if err := d.kind.Equip(facts, d.Plan.Host.Pin); err != nil {
			return err
		}
	}
	if d.Plan.Deployed() {
		facts.Instructions, facts.InstructionsWhy = false, "the servers run already, and nobody sees their instructions"
	}
	d.Host = *facts
	return d.writeFacts(facts, len(d.blocks) > 0)
}

// A restarted machine may have so much more or less memory, as a part of it: its firmware takes some.
const memoryDiffers = 0.01

// writeFacts writes raw/HOST.json. A run that has blocks must go on on the same machine: its blocks cannot be
// compared with those of another machine. A new kernel, boot or environment is only told.
func (h *host) writeFacts(now *record.Facts, hasBlocks bool) error {
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
func (h *host) blameFullDisk(b *record.Block) error {
	data := filepath.Join(h.Scratch, "data")
	used := record.UsedBytes(data)
	if _, full := record.IsFull(h.Scratch); !full || used <= h.Plan.Estimate.DatabaseBytes {
		return h.whyFull()
	}
	b.Failures[0].Message += fmt.Sprintf("; the disk of %s is full: its files take %d MiB, and %d were expected",
		h.Scratch, used>>20, h.Plan.Estimate.DatabaseBytes>>20)
	return record.Wipe(data) // makes room for the record of the block
}

func (h *host) whyFull() error {
	for _, dir := range []string{h.raw(""), h.Scratch} {
		free, full := record.IsFull(dir)
		if !full {
			continue
		}
		remedy := "free some there"
		if dir == h.Scratch {
			remedy += ", or point TSDUEL_CACHE to a larger disk"
		}
		return record.UserError("the disk of %s is full (%d MiB are free): %s; no finished block is lost. "+
			"To go on: make %s RUN=%s", dir, free>>20, remedy, h.Plan.Kind, filepath.Base(h.RunDir))
	}
	return nil
}
