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
	"sync/atomic"

	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/values"
	"tsduel/host/workload"
)

// Kind has the functions of one kind of run. All but Block may be nil.
type Kind struct {
	Block     func(context.Context, record.Spec) (*record.Block, error)
	Calibrate func(plan *record.Plan, warmup string) (*record.Calibration, error) // by the warm-up block, a directory
	Profile   func(context.Context, record.Spec) error                            // after all blocks, once
	Equip     func(facts *record.Facts, wanted record.Pin) error                  // adds what is pinned and counted
}

// Share is what one host does of a run. Each host has its own warm-up block and its own counts.
type Share struct {
	Host string
	Lost []int // blocks of lost hosts: this host runs its own spare blocks in their place
}

type driver struct {
	host
	share    Share
	rows     []record.BlockRow     // of this host
	lost     []record.BlockRow     // the rows of share.Lost
	blocks   map[int]*record.Block // the published ones, by number
	report   *record.NoiseReport
	kind     Kind
	method   record.Method
	failed   int          // number of failed blocks
	stopping bool         // a stop after a block was requested
	where    atomic.Value // a string, " in block N", for a defect
	locks    []*os.File   // nil until this run has the machine and the cache; held to the end
}

// realPath follows the links in a path, so that a run has one name in locks.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Run runs every block that the plan gives to this host and that is not finished, and returns the exit code
// of the program. Finished blocks are the directories raw/HOST/BBB; an interrupted block is run again.
func Run(ctx context.Context, runDir, cache string, share Share, kinds map[string]Kind) int {
	runDir, _ = filepath.Abs(realPath(runDir))
	d := &driver{share: share, blocks: map[int]*record.Block{}}
	d.RunDir, d.Raw = runDir, record.RawDir(runDir, share.Host)
	// What no goroutine can catch (no memory, a map written twice at once) would end with the code of a user's mistake.
	debug.SetTraceback("crash")
	d.Events = record.NewEvents(runDir, d.Raw, os.Getenv("TSDUEL_SCREEN") != "")
	return d.leave(ctx, d.guarded(ctx, cache, kinds))
}

// guarded turns a panic, of any goroutine, into an error: the run still writes its last event, and no process is left.
func (d *driver) guarded(ctx context.Context, cache string, kinds map[string]Kind) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	escaped := func(mistake any, stack []byte) {
		d.Events.Log("ERROR", string(stack))
		where, _ := d.where.Load().(string)
		end(record.Defect(where, mistake))
	}
	defer record.Catch(escaped)()
	defer func() {
		if mistake := recover(); mistake != nil {
			escaped(mistake, debug.Stack())
		}
		if defect, ok := errors.AsType[*record.Stop](context.Cause(ctx)); ok {
			err = defect
		}
		end(nil)
	}()
	if err := d.prepare(ctx, cache, kinds); err != nil {
		return err
	}
	return d.run(ctx)
}

func (d *driver) prepare(ctx context.Context, cache string, kinds map[string]Kind) (err error) {
	if d.Plan, err = record.LoadPlan(d.RunDir); err != nil {
		return err
	}
	var known bool
	if d.kind, known = kinds[d.Plan.Kind]; !known {
		return record.UserError("%s is a run of the kind %q, which this tsduel does not know: plan a new run",
			d.RunDir, d.Plan.Kind)
	}
	if err := d.takeRows(); err != nil {
		return err
	}
	if d.Cache, err = filepath.Abs(cache); err != nil {
		return err
	}
	if d.Hidden, err = d.Plan.Reveal(d.Cache); err != nil {
		return err
	}
	d.Events.Hide(d.Hidden)
	d.Scratch = filepath.Join(d.Cache, "scratch")
	if err := os.MkdirAll(d.Raw, 0o755); err != nil {
		return err
	}
	if d.locks, err = lockAll(ctx, d.RunDir, d.Plan.Kind, d.Cache); err != nil {
		return err
	}
	forgetStop(d.RunDir)
	d.endStrays()
	return d.tidyUp()
}

// takeRows keeps the rows of plan/blocks.tsv that this host has to do with.
func (d *driver) takeRows() error {
	rows, err := record.LoadRows(d.RunDir)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Host == d.share.Host {
			d.rows = append(d.rows, row)
		} else if slices.Contains(d.share.Lost, row.Block) {
			d.lost = append(d.lost, row)
		}
	}
	if len(d.rows) == 0 {
		return record.UserError("plan/blocks.tsv has no block for %s: plan a new run", d.share.Host)
	}
	return nil
}

func (d *driver) run(ctx context.Context) (err error) {
	if err := d.checkHost(); err != nil {
		return err
	}
	if d.method, err = d.methodNow(); err != nil {
		return err
	}
	isLeft := func(row record.BlockRow) bool { return row.Kind != "spare" && d.blocks[row.Block] == nil }
	if slices.ContainsFunc(d.rows, isLeft) {
		if err := d.checkMethod(); err != nil { // before anything is made for the blocks that are left
			return err
		}
	}
	d.emitRunStart()
	if err := d.describe(); err != nil {
		return err
	}
	if err := trim(d.Spec, d.tell); err != nil {
		d.note("the cache could not be kept below its limit (" + err.Error() + "); the run goes on")
	}
	if d.Plan.Workload != nil {
		if d.Workload, err = workload.Make(ctx, d.Spec); err != nil {
			return err
		}
	}
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
	if d.kind.Profile != nil && !exists(d.raw("profiles")) {
		if err := d.mayGoOn(ctx); err != nil {
			return err
		}
		if err := d.kind.Profile(ctx, d.Spec); err != nil {
			return err
		}
	}
	if d.failed > 0 {
		d.Events.Complain(fmt.Sprintf("%d of the blocks failed; the report says which and why", d.failed))
	}
	return nil
}

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
		"phases": d.phases(row)})
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

// leave says why the run ends, ends all processes, and returns the exit code.
func (d *driver) leave(ctx context.Context, err error) int {
	stop, _ := errors.AsType[*record.Stop](err)
	code, status, message := 0, record.OK, ""
	switch {
	case err == nil:
	case d.stopping:
		code, status, message = record.ExitInterrupted, "interrupted", "stopped as asked"
	case ctx.Err() != nil:
		code, status, message = record.ExitInterrupted, "interrupted", "interrupted"
	case stop != nil && stop.Code < record.ExitFailed:
		code, status, message = stop.Code, record.Failed, stop.Message
	default:
		code, status, message = record.ExitFailed, record.Failed, err.Error()
		if full := d.whyFull(); full != nil {
			code, message = record.ExitUser, full.Error()
		}
	}
	if d.locks == nil { // the processes and the events may be another run's
		if status == record.Failed {
			d.Events.Complain(message)
		}
		return code
	}
	for _, lock := range d.locks {
		defer lock.Close()
	}
	if err := proc.EndAll(); err != nil {
		d.note(err.Error())
	}
	d.endStrays()
	if err == nil && d.failed == 0 {
		d.wipeScratch()
	}
	if _, full := record.IsFull(d.Raw); full || code == record.ExitInterrupted {
		d.removePartials()
	}
	d.Events.Emit("run-end", record.Fields{"run": filepath.Base(d.RunDir), "kind": d.Plan.Kind, "status": status,
		"code": code, "message": message})
	forgetStop(d.RunDir)
	return code
}

func (h *host) raw(name string) string { return filepath.Join(h.Raw, name) }

func (h *host) note(text string) {
	h.Events.Log("INFO", text)
	fmt.Fprintln(os.Stderr, text)
}

func (h *host) tell(text string) { h.Events.Emit("note", record.Fields{"message": text}) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
