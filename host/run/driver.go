package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"tsduel/host/machine"
	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// Kind is what a kind of run does in its blocks.
type Kind struct {
	Block     func(context.Context, record.Spec) (*record.Block, error)
	Calibrate func(plan *record.Plan, warmup string) (*record.Calibration, error) // by the warm-up block, a directory; nil: Calibrate
	Profile   func(context.Context, record.Spec) error                            // after all blocks, unless raw/profiles is there; nil: nothing
	Equip     func(facts *record.Facts, wanted record.Pin) error                  // adds what is pinned and counted; nil: nothing is
}

// Who is one host of a run: its name, empty for the only one, and the blocks of a host that was lost, in place of which it runs its
// own spare ones. Every host is complete in itself, with a warm-up and counts of its own.
type Who struct {
	Host    string
	Instead []int
}

type driver struct {
	plan   *record.Plan
	who    Who
	rows   []record.BlockRow     // of this host
	lost   []record.BlockRow     // of others, in place of which spare ones are run here
	blocks map[int]*record.Block // that are published
	report *record.NoiseReport
	kind   Kind
	events *record.Events
	spec   record.Spec // what is the same for all blocks
	runDir string
	failed int        // blocks
	asked  bool       // to stop after a block
	locks  []*os.File // held until we end
}

// Run runs every block that the plan gives to this host and that has not been run yet, and returns the exit code of the program.
// Finished blocks are the directories raw/BBB; what was interrupted is done again from its start. A cancelled ctx interrupts it.
func Run(ctx context.Context, runDir, cache string, who Who, kinds map[string]Kind) int {
	if absolute, err := filepath.EvalSymlinks(runDir); err == nil {
		runDir, _ = filepath.Abs(absolute)
	}
	d := &driver{runDir: runDir, who: who, blocks: map[int]*record.Block{}, events: record.NewEvents(runDir, os.Getenv("TSDUEL_SCREEN") != "")}
	return d.leave(ctx, d.guarded(ctx, cache, kinds))
}

// guarded makes an error of a mistake of ours: the run has an end in its events all the same, and nothing is left running.
func (d *driver) guarded(ctx context.Context, cache string, kinds map[string]Kind) (err error) {
	defer func() {
		if mistake := recover(); mistake != nil {
			d.events.Log("ERROR", string(debug.Stack()))
			err = fmt.Errorf("a mistake of tsduel's own, of which run.log says more: %v", mistake)
		}
	}()
	if err := d.prepare(ctx, cache, kinds); err != nil {
		return err
	}
	return d.run(ctx)
}

func (d *driver) prepare(ctx context.Context, cache string, kinds map[string]Kind) (err error) {
	if d.plan, err = record.LoadPlan(d.runDir); err != nil {
		return err
	}
	var known bool
	if d.kind, known = kinds[d.plan.Kind]; !known || d.plan.Imported != nil {
		return record.UserError("%s was imported from logs: there is nothing to build or to run in it", d.runDir)
	}
	if err = d.takeRows(); err != nil {
		return err
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return err
	}
	scratch := filepath.Join(cache, "scratch")
	if err := errors.Join(record.PrivateDir(scratch), os.MkdirAll(d.raw(""), 0o755)); err != nil {
		return err
	}
	machine, err := lockMachine(ctx, d.runDir, d.plan.Kind)
	if err != nil {
		return err
	}
	d.locks = append(d.locks, machine)
	private, err := lockCache(ctx, cache, d.runDir, lockPatience)
	if err != nil {
		return err
	}
	d.locks = append(d.locks, private)
	lent, err := record.LoadLent(d.runDir, d.plan)
	if err != nil {
		return err
	}
	d.spec = record.Spec{Plan: d.plan, RunDir: d.runDir, Scratch: scratch, Cache: cache, Events: d.events, Lent: lent}
	forgetStop(d.runDir)
	d.endStrays()
	return d.tidyUp()
}

// takeRows takes what this host has to do with of plan/blocks.tsv, and of the cells those that it runs.
func (d *driver) takeRows() error {
	rows, err := record.LoadRows(d.runDir)
	if err != nil {
		return err
	}
	if d.who.Host == "" && len(d.plan.Hosts) > 0 {
		d.who.Host = d.plan.Hosts[0]
	}
	for _, row := range rows {
		if row.Host == d.who.Host {
			d.rows = append(d.rows, row)
		} else if slices.Contains(d.who.Instead, row.Block) {
			d.lost = append(d.lost, row)
		}
	}
	if len(d.rows) == 0 {
		return record.UserError("plan/blocks.tsv has no block for %s: plan a new run", d.who.Host)
	}
	d.plan.Cells = slices.DeleteFunc(d.plan.Cells, func(c record.Cell) bool {
		return !slices.ContainsFunc(d.rows, func(row record.BlockRow) bool { return row.Cell == c.Name })
	})
	return nil
}

func (d *driver) run(ctx context.Context) error {
	if err := d.checkHost(); err != nil {
		return err
	}
	d.emitRunStart()
	facts, err := d.describe()
	if err != nil {
		return err
	}
	d.spec.Host = *facts
	if err := d.meet(ctx); err != nil {
		return err
	}
	if err := trim(d.plan, d.runDir, d.spec.Cache, func(line string) { d.events.Emit("note", record.Fields{"message": line}) }); err != nil {
		d.note("the cache could not be kept below its limit (" + err.Error() + "); the run goes on")
	}
	if d.plan.Workload != nil {
		if err := d.makeWorkload(ctx); err != nil {
			return err
		}
	}
	// All that was planned, then what has to be replaced.
	for _, row := range d.rows {
		if row.Kind != "spare" {
			if err := d.block(ctx, row); err != nil {
				return err
			}
		}
	}
	if err := d.replaceSpoilt(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(d.raw("profiles")); err != nil && d.kind.Profile != nil {
		if err := d.mayGoOn(ctx); err != nil {
			return err
		}
		if err := d.kind.Profile(ctx, d.spec); err != nil {
			return err
		}
	}
	if d.failed > 0 {
		d.events.Complain(fmt.Sprintf("%d of the blocks failed; the report says which and why", d.failed))
	}
	return nil
}

// block runs a block unless it is there.
func (d *driver) block(ctx context.Context, row record.BlockRow) error {
	if err := d.tooManyFailed(); err != nil {
		return err
	}
	if row.Kind != "warmup" {
		if err := d.calibrate(); err != nil {
			return err
		}
	}
	if d.blocks[row.Block] != nil {
		return nil
	}
	if err := d.mayGoOn(ctx); err != nil {
		return err
	}
	spec := d.spec
	spec.Row, spec.Dir = row, d.raw(row.Name()+".partial")
	spec.Plan, spec.Workload, spec.Calibration = d.plan.In(row.Cell), d.spec.Workload.In(row.Cell), d.spec.Calibration.In(row.Cell)
	if err := errors.Join(record.RemoveTree(spec.Dir), os.Mkdir(spec.Dir, 0o755)); err != nil {
		return err
	}
	d.events.Emit("block-start", record.Fields{"block": row.Block, "cell": row.Cell, "kind": row.Kind, "order": row.Order, "phases": d.phases(row)})
	b, err := d.kind.Block(ctx, spec)
	d.endStrays()
	if err == nil {
		err = d.publish(spec, b)
	}
	if err != nil {
		return err
	}
	return d.tooManyFailed()
}

// mayGoOn is asked between blocks.
func (d *driver) mayGoOn(ctx context.Context) error {
	d.asked = stopRequested(d.runDir)
	if d.asked {
		return context.Canceled
	}
	return ctx.Err()
}

func (d *driver) tooManyFailed() error {
	d.failed = 0
	failed := map[string]int{}
	for _, b := range d.blocks {
		if b.Status != record.OK {
			d.failed++
			failed[b.Cell]++
		}
	}
	for _, cell := range d.plan.CellNames() {
		if limit := d.plan.Design.MaxFailedBlocks; failed[cell] > limit {
			return record.FailedError("%d of the blocks%s failed (design.max_failed_blocks is %d): the run stops here; what failed is in %s", failed[cell], ofCell(cell), limit, d.raw("*/block.json"))
		}
	}
	return nil
}

// ofCell names a setting of a sweep within a sentence.
func ofCell(cell string) string {
	if cell == "" {
		return ""
	}
	return " of cell " + cell
}

// publish gives a block its name, and tells how it ended.
func (d *driver) publish(spec record.Spec, b *record.Block) error {
	if b.Status != record.OK {
		if err := d.blameFullDisk(b); err != nil {
			return err
		}
	}
	if err := record.WriteJSON(filepath.Join(spec.Dir, "block.json"), b); err != nil {
		return err
	}
	if err := record.Publish(spec.Dir, d.raw(spec.Row.Name())); err != nil {
		return err
	}
	d.blocks[b.Block] = b
	// After each, so that a run that ends early has its judgement too.
	if err := d.judge(); err != nil {
		return err
	}
	d.events.Emit("block-end", record.Fields{"block": b.Block, "kind": b.Kind, "status": b.Status, "void": b.Void, "seconds": b.Ended - b.Started,
		"ratios": b.Ratios, "failures": b.Failures, "causes": d.judged(b.Block).Causes})
	return nil
}

func (d *driver) judge() error {
	d.report = noise.Judge(d.plan, slices.Collect(maps.Values(d.blocks)))
	if d.report == nil {
		return nil
	}
	return record.WriteJSON(d.raw("noise.json"), d.report)
}

func (d *driver) judged(block int) record.JudgedBlock {
	if d.report != nil {
		for _, judged := range d.report.Blocks {
			if judged.Block == block {
				return judged
			}
		}
	}
	return record.JudgedBlock{}
}

// replaceSpoilt runs spare blocks, which were drawn with the plan, in place of blocks that were spoilt from outside. One that
// failed is not replaced: that is its variant's doing. Each cell has spare blocks of its own.
func (d *driver) replaceSpoilt(ctx context.Context) error {
	err := d.judge()
	for _, cell := range d.plan.CellNames() {
		if err == nil {
			err = d.replaceSpoiltOf(ctx, cell)
		}
	}
	return err
}

func (d *driver) replaceSpoiltOf(ctx context.Context, cell string) error {
	var counted, spares []record.BlockRow
	for _, row := range slices.Concat(d.lost, d.rows) {
		if row.Cell != cell {
			continue
		}
		if row.Kind == "spare" && row.Host == d.who.Host {
			spares = append(spares, row)
		}
		if row.Kind != "warmup" {
			counted = append(counted, row)
		}
	}
	told := map[int]bool{}
	// The first that is spoilt has the first spare, and so on: a spare that was run is not run again after an interruption.
	for again := true; again; {
		again = false
		next := 0
		for _, row := range counted {
			causes := d.spoilt(row.Block)
			if causes == "" {
				continue
			}
			if next >= len(spares) {
				if !told[row.Block] {
					d.events.Note(row.Block, "", "", "it does not count, and no spare block is left: "+causes)
				}
				told[row.Block] = true
				continue
			}
			spare := spares[next]
			next++
			if d.blocks[spare.Block] == nil {
				d.events.Emit("block-replaced", record.Fields{"block": row.Block, "spare": spare.Block, "message": causes})
				if err := d.block(ctx, spare); err != nil {
					return err
				}
				again = true
				break
			}
		}
	}
	return nil
}

// spoilt is why a block that is there does not count, although nothing in it failed; empty where it counts or has failed.
func (d *driver) spoilt(block int) string {
	if slices.Contains(d.who.Instead, block) {
		return "the host that was to run it was lost"
	}
	b := d.blocks[block]
	if b == nil || b.Status != record.OK {
		return ""
	}
	causes := d.judged(block).Causes
	if b.Void != "" {
		causes = append([]string{b.Void}, causes...)
	}
	said := strings.Join(causes[:min(2, len(causes))], "; ")
	if len(causes) > 2 {
		said += fmt.Sprintf("; and %d more", len(causes)-2)
	}
	return said
}

// checkHost looks before anything is measured.
func (d *driver) checkHost() (err error) {
	for _, name := range []string{"data", "bench"} {
		if why := record.WhyNotOurs(filepath.Join(d.spec.Scratch, name)); why != "" {
			return record.UserError("%s", why)
		}
	}
	if d.spec.Builds, err = record.LoadBuilds(d.runDir, d.plan); err != nil {
		return err
	}
	// Data and queries are estimated where they are made.
	free, _ := record.IsFull(d.spec.Scratch)
	needed := d.plan.Estimate.ResultsBytes
	if d.spec.Lent == nil { // else it lies where meet looks
		needed += d.plan.Estimate.DatabaseBytes
		free += record.UsedBytes(filepath.Join(d.spec.Scratch, "data")) // of a block before, which may have been cut off
	}
	if free < needed {
		return record.UserError("%d MiB are free in %s, and the database and the results need about %d MiB: free some, or point TSDUEL_CACHE to a larger disk",
			free>>20, d.spec.Scratch, needed>>20)
	}
	return nil
}

// describe writes raw/HOST.json, with what is pinned where.
func (d *driver) describe() (*record.Facts, error) {
	facts, err := noise.Describe(d.spec.Scratch)
	if err != nil {
		return nil, err
	}
	facts.Host, facts.Pin = cmp.Or(d.who.Host, "host1"), record.Pin{Mode: "off", Server: []int{}, Client: []int{}}
	wanted := d.plan.Host.Pin
	if d.spec.Lent != nil {
		wanted = record.Pin{Mode: "apart"}
	}
	if d.kind.Equip != nil {
		if err := d.kind.Equip(facts, wanted); err != nil {
			return nil, err
		}
	}
	if d.spec.Lent != nil {
		facts.Instructions, facts.InstructionsWhy = false, aloneWhy
	}
	return facts, record.WriteJSON(d.raw(facts.Host+".json"), facts)
}

// emitRunStart tells all that somebody who watches needs to know of the plan, so that the events are enough.
func (d *driver) emitRunStart() {
	planned, measured, finished := 0, 0, 0
	for _, row := range d.rows {
		if row.Kind != "spare" {
			planned++
		}
		if row.Kind == "measured" {
			measured++
		}
		if d.blocks[row.Block] != nil {
			finished++
		}
	}
	price, since := 0.0, 0.0
	if d.plan.Place.Price != nil {
		price = d.plan.Place.Price.Hour
	}
	// A rented machine is paid for since it began to run.
	if stat, err := proc.FS().Stat(); err == nil {
		since = float64(stat.BootTime)
	}
	cells := len(d.plan.CellNames())
	d.events.Emit("run-start", record.Fields{"run": d.plan.Run, "kind": d.plan.Kind, "cells": cells, "blocks": measured, "variants": len(d.plan.Variants),
		"planned": planned, "finished": finished, "block_s": d.plan.Duration.BlockS, "workload_s": d.plan.Duration.WorkloadS,
		"place": d.plan.Place.Kind, "price_h": price, "machine_since": since})
}

// phases is how many a block will tell of: what a bar of the whole is drawn with.
func (d *driver) phases(row record.BlockRow) int {
	if d.plan.Kind != "tsbs" {
		if d.spec.Calibration == nil || row.Kind == "warmup" {
			return len(row.Order)
		}
		return len(row.Order) * len(d.spec.Calibration.Rows)
	}
	if d.plan.Design.StartFrom == "baseline" {
		// The baseline's load; of each variant copy, start, ingest, settle, downgrade but of the baseline; two duels, of which the second
		// asks over two windows.
		return 5 + 5*len(row.Order) - 1 + 2*4 + 3*len(row.QueryTypes)
	}
	solo, plan := 5, d.plan.In(row.Cell) // canary, start, load, settle, stop
	if plan.Queries.Solo {
		solo += len(row.QueryTypes)
	}
	phases := len(row.Order) * solo
	if plan.Duel.Enabled {
		phases += 4 + len(row.QueryTypes) // start, idle twice, stop
	}
	if plan.Mixed != nil {
		phases += 3 * len(row.Order) // start, mixed, stop
	}
	if plan.Capacity != nil {
		phases += (2 + len(plan.Capacity.Ladder)) * len(row.Order)
	}
	return phases
}

func (d *driver) endStrays() {
	count, err := proc.EndStrays(d.spec.Scratch)
	if count > 0 {
		d.note(fmt.Sprintf("ended what an interrupted block left behind: %d processes", count))
	}
	if err != nil {
		d.note(err.Error())
	}
}

// blameFullDisk blames the version, if it has written more than was to be expected; else it is an error: the block is run again when
// there is room.
func (d *driver) blameFullDisk(b *record.Block) error {
	for where, m := range d.machines() {
		var disk machine.Disk
		if m.Disk(d.spec.Scratch, &disk) != nil || !disk.Full || disk.Data <= d.plan.Estimate.DatabaseBytes {
			continue
		}
		b.Failures[0].Message += fmt.Sprintf("; the disk of %s%s is full: its files take %d MiB, and %d were expected",
			d.spec.Scratch, where, disk.Data>>20, d.plan.Estimate.DatabaseBytes>>20)
		if where == "" { // the room is needed for the record
			return record.Wipe(filepath.Join(d.spec.Scratch, "data"))
		}
		return nil
	}
	return d.whyFull()
}

// whyFull is a sentence if a disk of ours is full, else nil.
func (d *driver) whyFull() error {
	for where, m := range d.machines() {
		for _, dir := range []string{d.raw(""), d.spec.Scratch} {
			var disk machine.Disk
			if m.Disk(dir, &disk) != nil || !disk.Full {
				continue
			}
			remedy := "free some there"
			if dir == d.spec.Scratch && where == "" {
				remedy += ", or point TSDUEL_CACHE to a larger disk"
			}
			return record.UserError("the disk of %s%s is full (%d MiB are free): %s; no finished block is lost. To go on: make %s RUN=%s",
				dir, where, disk.Free>>20, remedy, d.plan.Kind, filepath.Base(d.runDir))
		}
	}
	return nil
}

// leave says why the run ends, ends what is left, and returns the exit code.
func (d *driver) leave(ctx context.Context, err error) int {
	var stop *record.Stop
	code, status, message := 0, record.OK, ""
	switch {
	case err == nil:
	case d.asked:
		code, status, message = record.ExitInterrupted, "interrupted", "stopped as asked"
	case ctx.Err() != nil:
		code, status, message = record.ExitInterrupted, "interrupted", "interrupted"
	case errors.As(err, &stop) && stop.Code == record.ExitUser:
		code, status, message = stop.Code, record.Failed, stop.Message
	default:
		code, status, message = record.ExitFailed, record.Failed, err.Error()
		if full := d.whyFull(); full != nil {
			code, message = record.ExitUser, full.Error()
		}
	}
	for _, lock := range d.locks {
		defer lock.Close()
	}
	// Without both, what runs here is another run's.
	if len(d.locks) < 2 {
		if status == record.Failed {
			d.events.Complain(message)
		}
		return code
	}
	if err := proc.EndAll(); err != nil {
		d.note(err.Error())
	}
	d.endStrays()
	d.release()
	if code == record.ExitInterrupted {
		d.removePartials()
	}
	d.events.Emit("run-end", record.Fields{"run": filepath.Base(d.runDir), "kind": d.plan.Kind, "status": status, "code": code, "message": message})
	forgetStop(d.runDir)
	return code
}

// removePartials removes what was not published: it is run again from its start, and nothing reads what it left.
func (d *driver) removePartials() {
	for _, partial := range matching(d.raw(""), "*.partial") {
		if err := record.RemoveTree(partial); err != nil {
			d.note(err.Error())
		}
	}
}

func (d *driver) raw(name string) string { return filepath.Join(d.runDir, "raw", name) }

// note is for whoever looks at the terminal or at run.log.
func (d *driver) note(text string) {
	d.events.Log("INFO", text)
	fmt.Fprintln(os.Stderr, text)
}
