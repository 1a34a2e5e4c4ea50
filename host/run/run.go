package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/workload"

	"golang.org/x/sys/unix"
)

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
		} else if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) { // what was half made is removed
			code, message = record.ExitUser, fmt.Sprintf("%s: free some space; no finished block is lost. To go on: make %s "+
				"RUN=%s", message, d.Plan.Kind, filepath.Base(d.RunDir))
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
