package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/values"
)

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
	if err := cmp.Or(d.mayGoOn(ctx), d.checkMethod()); err != nil {
		return err
	}
	spec := d.Spec
	spec.Row, spec.Dir = row, d.raw(row.Name()+".partial")
	if err := errors.Join(record.RemoveTree(spec.Dir), os.Mkdir(spec.Dir, 0o755)); err != nil {
		return err
	}
	d.Events.Emit("block-start", record.Fields{"block": row.Block, "kind": row.Kind, "order": row.Order,
		"phases": d.kind.Phases(d.Plan, row, d.Calibration)})
	d.where.Store(fmt.Sprintf(" in block %d", row.Block))
	b, err := d.kind.Block(ctx, spec)
	d.where.Store("")
	d.endStrays()
	if err == nil {
		err = d.publish(spec, b)
	}
	if err != nil {
		return err
	}
	return d.tooManyFailed()
}

// mayGoOn returns an error if the run was interrupted, or asked to stop between blocks.
func (d *driver) mayGoOn(ctx context.Context) error {
	if d.stopping = exists(stopFile(d.RunDir)); d.stopping {
		return context.Canceled
	}
	return ctx.Err()
}

func (d *driver) tooManyFailed() error {
	d.failed = 0
	for _, b := range d.blocks {
		if b.Status != record.OK {
			d.failed++
		}
	}
	if limit := d.Plan.Design.MaxFailedBlocks; d.failed > limit {
		return record.FailedError("%d of the blocks failed (design.max_failed_blocks is %d): the run stops here; "+
			"what failed is in %s", d.failed, limit, d.raw("*/block.json"))
	}
	return nil
}

func (d *driver) publish(spec record.Spec, b *record.Block) error {
	if b.Status != record.OK {
		if err := d.blameFullDisk(b); err != nil {
			return err
		}
	}
	b.Method = d.method
	if err := values.Write(d.Plan, b, spec.Dir); err != nil {
		return err
	}
	if err := record.WriteJSON(filepath.Join(spec.Dir, "block.json"), b); err != nil {
		return err
	}
	if err := record.Publish(spec.Dir, d.raw(spec.Row.Name())); err != nil {
		return err
	}
	d.blocks[b.Block] = b
	if err := d.judge(); err != nil { // after each block: the run may end early
		return err
	}
	d.Events.Emit("block-end", record.Fields{"block": b.Block, "kind": b.Kind, "status": b.Status, "void": b.Void,
		"seconds": b.Ended - b.Started, "ratios": b.Ratios, "failures": b.Failures, "causes": d.causes(b.Block)})
	return nil
}

func (d *driver) judge() error {
	if d.report = noise.Judge(d.Plan, slices.Collect(maps.Values(d.blocks))); d.report == nil {
		return nil
	}
	return record.WriteJSON(d.raw("noise.json"), d.report)
}

func (d *driver) endStrays() {
	count, err := proc.EndStrays(d.Scratch)
	if count > 0 {
		d.note(fmt.Sprintf("ended what an interrupted block left behind: %d processes", count))
	}
	if err != nil {
		d.note(err.Error())
	}
}

func (d *driver) causes(block int) []string {
	if d.report != nil {
		for _, judged := range d.report.Blocks {
			if judged.Block == block {
				return judged.Causes
			}
		}
	}
	return nil
}
