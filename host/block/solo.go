package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsduel/host/checks"
	"tsduel/host/logs"
	"tsduel/host/machine"
	"tsduel/host/profiles"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// runSolo lets each variant load alone; in an upgrade the baseline alone.
func runSolo(ctx context.Context, f *frame) error {
	order, baseline := f.Row.Order, f.Plan.Variants[0].Name
	switch {
	case f.Plan.Design.StartFrom == "baseline":
		order = []string{baseline}
	case f.Plan.Design.LoadedBy == "baseline": // the others read what it has loaded
		order = slices.Insert(without(order, baseline), 0, baseline)
	}
	err := f.inOrder(order, func(v *variant) error {
		if f.decided() {
			return nil
		}
		return (&alone{variant: v}).run(ctx, f.loaded || v.Name != f.loadedBy(v.Name))
	})
	if err != nil || f.loadsInTurn() {
		return err
	}
	return f.markLoaded()
}

// run is the solo part of a variant: the load, unless an earlier block has loaded, and on request TSBS's closed loop.
func (a *alone) run(ctx context.Context, loaded bool) (err error) {
	if loaded && !a.in.Plan.Queries.Solo {
		return a.workOnCopy(ctx)
	}
	a.record = &record.SoloRecord{Sizes: map[string]int64{}, CPUNS: map[string]int64{}}
	defer func() { a.in.block.Solo[a.Name] = *a.record }()
	if a.Snapshots, err = scrape.Create(filepath.Join(a.Dir, "metrics.prom.gz"), a.Module.Ticks); err != nil {
		return err
	}
	if !loaded {
		if err := a.fromEmptyDisk(ctx); err != nil {
			return err
		}
	}
	if a.in.loadsInTurn() { // the duel starts with an empty disk
		return errors.Join(a.Close(false), a.Empty(false))
	}
	if err := a.workOnCopy(ctx); err != nil {
		return err
	}
	if a.in.Plan.Queries.Solo {
		if err := a.queries(ctx); err != nil {
			return err
		}
	}
	return a.Close(false)
}

// workOnCopy moves the variant to a copy of its data, if later blocks need them as the load left them.
func (v *variant) workOnCopy(ctx context.Context) error {
	if v.in.Plan.Design.Reload != "once" || v.in.Plan.Design.StartFrom == "baseline" {
		return nil // an upgrade makes its own copies
	}
	v.Data = v.in.layout.DataDir("copies", v.Name)
	_, err := machine.Copy(ctx, machine.Copying{From: v.in.layout.DataDir("loaded", v.in.loadedBy(v.Name)), To: v.Data})
	return err
}

// fromEmptyDisk starts a variant, loads the first window, and stops the variant.
func (a *alone) fromEmptyDisk(ctx context.Context) (err error) {
	if err := a.canary(); err != nil {
		return err
	}
	s := a.begin(record.Solo, "start", "")
	if a.record.StartS, err = a.Launch(ctx, "", nil); s.ended(err) != nil {
		return err
	}
	data, err := a.firstWindow()
	if err != nil {
		return err
	}
	if err := a.load(ctx, data, record.Solo, "load"); err != nil {
		return err
	}
	if _, err := a.Snapshots.Edge(ctx, "stop", "begin", ""); err != nil {
		return err
	}
	s = a.begin(record.Solo, "stop", "")
	if a.record.StopS, err = a.Shutdown(ctx); s.ended(err) != nil {
		return err
	}
	return a.keepSizes(ctx)
}

func (a *alone) canary() error {
	// Writes of other variants end before this one is measured.
	err := record.SyncDisk(a.in.Scratch)
	limits := a.in.Plan.Noise
	if err != nil || limits == nil || cmp.Or(limits.CanaryPct, limits.CanaryFlagPct, limits.CanaryFsyncFlagPct) == nil {
		return err
	}
	s := a.begin(record.Solo, "canary", "")
	if a.record.Canary, err = machine.TakeCanary(a.in.Scratch); err != nil {
		return err
	}
	s.close(0, 0)
	return nil
}

func (a *alone) keepSizes(ctx context.Context) error {
	by, sum, err := a.Sizes(ctx)
	a.record.Sizes, a.record.SizesByRole = sum, nil
	for name, bytes := range by {
		a.in.byRole(&a.record.SizesByRole, name, bytes)
	}
	return err
}

// firstWindow is its data, or the large load of the warm-up block.
func (a *alone) firstWindow() (data record.DataFile, err error) {
	files := a.in.Workload.Data
	if a.in.loadsInTurn() {
		files = a.in.Workload.Alone
	}
	if files = record.OfFormat(files, a.Module.DataFormat); len(files) != 1 {
		return data, fmt.Errorf("raw/workload.json has %d files of data in format %q", len(files), a.Module.DataFormat)
	}
	return files[0], nil
}

// load loads a file, lets the database settle, and checks that all samples are stored.
func (a *alone) load(ctx context.Context, data record.DataFile, part, phase string) error {
	planned, prefix := data.Samples, filepath.Join(a.Dir, "load")
	before, err := a.Snapshots.Edge(ctx, "load", "begin", "")
	if err != nil {
		return err
	}
	cpu, err := a.CPU()
	if err != nil {
		return err
	}
	written, _ := a.Kernel()
	s := a.begin(part, phase, "")
	stopTicks := a.Snapshots.Ticks(ctx, nil)
	endProfile := a.in.profiler.Read(ctx, "load", profiles.FirstWindow, endpoints(a.variant)...)
	defer endProfile(0)
	w := watch{stallS: a.in.Plan.Watchdog.LoadStallS}
	w.progress = func() (float64, error) {
		done := acknowledged(prefix + ".csv")
		a.in.Events.Progress(phase, int64(done), planned)
		return done, nil
	}
	w.stalled = func() error {
		return checks.Faultf("no sample was acknowledged for %v s: the server answers %s; %s", w.stallS,
			cmp.Or(logs.LastMatch(httpStatus, prefix+".stderr"), "nothing"), a.WriteServer().LastWords())
	}
	s.listen(a.Running...)
	loader, err := a.loader(data, prefix)
	if err != nil {
		stopTicks()
		return err
	}
	exit, err := w.untilEnd(ctx, a.variant, loader)
	// The CPU is read before the last tick, which may have to wait for an answer.
	if now, gone := a.CPU(); gone == nil {
		a.keepCPU("load", now.Since(cpu))
	}
	stopTicks()
	if err != nil {
		return err
	}
	a.Snapshots.Mark("load", "end", "")
	s.over()
	s.End, s.ClientUserS, s.ClientSystemS = record.Epoch(exit.At), exit.User.Seconds(), exit.System.Seconds()
	s.Begin = record.Epoch(loader.Began)
	s.close(exit.Code, planned)
	if err := a.ended(ctx, prefix, exit.Code); err != nil {
		return err
	}
	if err := a.sent(prefix, planned); err != nil {
		return err
	}
	if len(a.queues()) > 0 {
		if _, err := a.arrive(ctx, planned, before, arriveEvery); err != nil {
			return err
		}
		a.record.ArriveS = new(time.Since(exit.At).Seconds())
	}
	drained, err := a.settle(ctx, part, exit.At, func() { endProfile(planned) })
	if err != nil {
		return err
	}
	a.keepCPU("drained", drained.cpu.Since(cpu))
	if a.record.WrittenBytes = -1; written.StorageWritten >= 0 && drained.written >= 0 {
		a.record.WrittenBytes = drained.written - written.StorageWritten
	}
	if a.in.Plan.Settle.Drain {
		a.record.DrainS = &drained.seconds
	}
	// The body may be the one of the last poll: nothing changes any more.
	a.Snapshots.Mark("settle", "end", "")
	after, err := a.Snapshots.Body(ctx, false)
	if err != nil {
		return err
	}
	if err := a.stored(planned, before, after); err != nil {
		return err
	}
	return a.SameProcess()
}

var (
	loadedLine = regexp.MustCompile(`^loaded (\d+) (metrics|samples) `)
	// A loader that a server has told to wait prints this on stdout and sends the batch again.
	backoffLine = regexp.MustCompile(`^\[worker \d+\] backoff took `)
	httpStatus  = regexp.MustCompile(`(HTTP status \d+)`)
)

// samplesSent is how many samples the loader says that it has sent, as a number and as a word.
func samplesSent(csv string) (samples int64, word string) {
	word = "no"
	logs.Lines(func(line string) {
		if match := loadedLine.FindStringSubmatch(line); match != nil {
			n, _ := strconv.ParseInt(match[1], 10, 64)
			samples, word = n, match[1]
		}
	}, csv)
	return samples, word
}

// ended checks how the loader ended.
func (a *alone) ended(ctx context.Context, prefix string, code int) error {
	if err := a.BlameServer(ctx, code); err != nil {
		return err
	}
	return a.Equal("load_exit", 0, int64(code), "the loader ended with %s: %s%s", logs.ExitWords(code),
		logs.ClientWords(prefix+".stderr"), a.in.outOfMemory())
}

// sent checks the loader's own count and complaints, before the queries take an hour on half the data.
func (a *alone) sent(prefix string, planned int64) error {
	complaints, first := int64(0), ""
	complain := func(line string) {
		// A library says so in our own loader where the kernel has no PSI.
		if !strings.Contains(line, " INFO: metrics: ") {
			complaints, first = complaints+1, cmp.Or(first, line)
		}
	}
	logs.Lines(func(line string) {
		if backoffLine.MatchString(line) {
			complain(line)
		}
	}, prefix+".csv")
	logs.Lines(complain, prefix+".stderr")
	samples, word := samplesSent(prefix + ".csv")
	wrong := fmt.Sprintf("the loader says it sent %s samples, and the plan has %d", word, planned)
	if complaints > 0 {
		wrong += "; it says: " + logs.ClientWords(prefix+".stderr")
	}
	if err := a.Equal("samples_sent", planned, samples, "%s", wrong); err != nil {
		return err
	}
	return a.Equal("load_retries", 0, complaints, "the loader complained on %d lines, the first: %s", complaints,
		scrape.OneLine(first))
}

// settle asks the database to settle and waits until it is quiet. It calls drained after the load's work.
func (a *alone) settle(ctx context.Context, part string, loadEnd time.Time, drained func()) (at drain, err error) {
	s := a.begin(part, "settle", "")
	s.listen(a.Running...)
	deadline := time.Now().Add(record.Seconds(a.in.Plan.Settle.TimeoutS))
	natural, polls := a.Module.Quiet, a.in.Plan.Settle.Polls
	if a.mergesLater() && part == record.Solo {
		natural, polls = a.Module.BeforeMerge, 1
	}
	settled := func(mode string, quiet []string, polls int) (drain, error) {
		if err := a.AskToSettle(ctx, mode); err != nil {
			return drain{}, err
		}
		return a.waitQuiet(ctx, quiet, polls, loadEnd, deadline)
	}
	if at, err = settled("natural", natural, polls); err != nil {
		return at, err
	}
	drained()
	if a.in.Plan.Settle.Mode == "merged" && a.merges() && !a.mergesLater() {
		a.Snapshots.Mark("settle", "begin", "")
		// A merge that we ask for is not the load's work. The first poll may come before the merge has begun.
		if _, err := settled("merged", a.Module.Quiet, max(2, a.in.Plan.Settle.Polls)); err != nil {
			return at, err
		}
	}
	s.close(0, 0)
	return at, nil
}
