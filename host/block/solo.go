package block

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// watchEvery is how often a client and its server are looked at: often enough to see one die, and cheap.
const watchEvery = time.Second

// prepare makes the block's directories; loaded says that the databases of an earlier block are used (design.reload once).
func (f *frame) prepare() (loaded bool, err error) {
	data := filepath.Join(f.Scratch, "data")
	if text, err := os.ReadFile(f.loadedMark()); err == nil && f.Plan.Design.Reload == "once" && string(text) == f.Plan.Run {
		if why := record.WhyNotOurs(data); why != "" {
			return false, record.UserError("%s", why)
		}
		loaded = true
	} else if err := record.Wipe(data); err != nil {
		return false, err
	}
	directories := []string{f.emptyDir(), filepath.Join(data, "copies")}
	for _, v := range f.variants {
		directories = append(directories, v.data, filepath.Join(v.dir, "query"))
	}
	for _, dir := range directories {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return false, err
		}
	}
	return loaded, nil
}

// loadedMark is a file that names the run whose data lie there whole; wiped with them.
func (f *frame) loadedMark() string { return filepath.Join(f.Scratch, "data", "run") }

// solo takes a variant alone from an empty disk to a stopped server, and then, where that is asked for, through TSBS's
// closed loop of queries.
func (f *frame) solo(ctx context.Context, v *variant, loaded bool) (err error) {
	if loaded && !f.Plan.Queries.Solo {
		return f.untouched(v)
	}
	rec := record.SoloRecord{Sizes: map[string]int64{}, CPUNS: map[string]int64{}, Pids: map[string]int{}, PidsEnd: map[string]int{}}
	defer func() { f.block.Solo[v.Name] = rec }()
	if v.snapshots, err = scrape.Create(filepath.Join(v.dir, "metrics.prom.gz"), v.target.Ticks); err != nil {
		return err
	}
	if !loaded {
		for _, step := range []func(context.Context, *variant, *record.SoloRecord) error{f.canary, f.startAlone, f.load, f.stopAlone} {
			if err := step(ctx, v, &rec); err != nil {
				return err
			}
		}
	}
	if err := f.untouched(v); err != nil {
		return err
	}
	if f.Plan.Queries.Solo {
		if err := f.queries(ctx, v, &rec); err != nil {
			return err
		}
	}
	return v.close(false)
}

// untouched has what comes after the load work on a copy, where later blocks need the directory as the load left it.
func (f *frame) untouched(v *variant) error {
	if f.Plan.Design.Reload != "once" {
		return nil
	}
	from := v.data
	v.data = filepath.Join(f.Scratch, "data", "copies", v.Name)
	if err := errors.Join(record.RemoveTree(v.data), os.CopyFS(v.data, os.DirFS(from))); err != nil {
		return fmt.Errorf("copy the database of %s: %w", v.Name, err)
	}
	return nil
}

// keep marks the databases as those that later blocks use.
func (f *frame) keep(loaded bool) error {
	if loaded || f.Plan.Design.Reload != "once" || f.block.Status != record.OK {
		return nil
	}
	return errors.Join(syncDisk(f.Scratch), record.WriteFile(f.loadedMark(), []byte(f.Plan.Run)))
}

var takeCanary = noise.Canary // tests have a short one

func (f *frame) canary(_ context.Context, v *variant, rec *record.SoloRecord) (err error) {
	// What others have written is on the disk before this one is measured.
	if err := syncDisk(f.Scratch); err != nil {
		return err
	}
	if limits := f.Plan.Noise; limits == nil || limits.CanaryPct == nil && limits.CanaryFlagPct == nil && limits.CanaryFsyncFlagPct == nil {
		return nil // nobody looks at it
	}
	s := f.begin(v, record.Solo, "canary", "")
	if rec.Canary, err = takeCanary(f.Scratch); err == nil {
		s.close(0, 0)
	}
	return err
}

func syncDisk(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("write the disk of %s: %w", dir, err)
	}
	return nil
}

func (f *frame) startAlone(ctx context.Context, v *variant, rec *record.SoloRecord) (err error) {
	s := f.begin(v, record.Solo, "start", "")
	if rec.StartS, err = f.launch(ctx, v, "", nil); err != nil {
		return err
	}
	rec.Pids = v.pids()
	s.close(0, 0)
	return nil
}

func (f *frame) stopAlone(ctx context.Context, v *variant, rec *record.SoloRecord) (err error) {
	if _, err := v.snapshots.Edge(ctx, "stop", "begin", ""); err != nil {
		return err
	}
	rec.PidsEnd = v.pids()
	s := f.begin(v, record.Solo, "stop", "")
	if rec.StopS, err = f.shutdown(ctx, v); err != nil {
		return err
	}
	s.close(0, 0)
	rec.Sizes, err = f.sizes(ctx, v)
	return err
}

// load loads alone, then waits until the database has nothing left to do with it, and checks that all of it is there.
func (f *frame) load(ctx context.Context, v *variant, rec *record.SoloRecord) error {
	data, ok := f.Workload.DataFor(v.target.DataFormat)
	if !ok {
		return fmt.Errorf("raw/workload.json has no data in format %q", v.target.DataFormat)
	}
	before, err := v.snapshots.Edge(ctx, "load", "begin", "")
	if err != nil {
		return err
	}
	cpu, err := v.cpu()
	if err != nil {
		return err
	}
	s := f.begin(v, record.Solo, "load", "")
	path := first(data.FeedPath, data.Path)
	feed, wait, err := unpacked(path)
	if err != nil {
		return err
	}
	if feed != nil {
		path = "-"
	}
	prefix := filepath.Join(v.dir, "load")
	stopTicks := v.snapshots.Ticks(ctx, nil)
	c := client{
		verb: verb{name: "load", stdin: feed, env: []string{"LOAD_FILE=" + path, "LOAD_RESULTS=" + prefix + ".json",
			fmt.Sprintf("LOAD_WORKERS=%d", f.Plan.Workload.Workers), fmt.Sprintf("LOAD_BATCH_SIZE=%d", f.Plan.Workload.BatchSize)}},
		stdout: prefix + ".csv", stderr: prefix + ".stderr", stallS: f.Plan.Watchdog.LoadStallS,
	}
	c.progress = func(*proc.Process) (float64, error) {
		done := acknowledged(c.stdout)
		f.Events.Progress("load", int64(done), f.Plan.Workload.Samples)
		return done, nil
	}
	c.stalled = func() error {
		return faultf("no sample was acknowledged for %v s: the server answers %s; %s", c.stallS, httpStatus(c.stderr), lastWords(v.front().log))
	}
	s.listen(v.servers...)
	exit, err := f.drive(ctx, v, &c)
	stopTicks()
	fed := wait()
	if err != nil {
		return err
	}
	v.snapshots.Mark("load", "end", "")
	s.over(v.servers...)
	s.End, s.ClientUserS, s.ClientSystemS = record.Epoch(exit.At), exit.User.Seconds(), exit.System.Seconds()
	if now, err := v.cpu(); err == nil {
		rec.CPUNS["load"] = int64(now - cpu)
	}
	s.close(exit.Code, f.Plan.Workload.Samples)
	if err := f.died(v); err != nil {
		return err
	}
	if err := f.equal(v, "load_exit", 0, float64(exit.Code), fmt.Sprintf("the loader ended with %s: %s%s", exitWords(exit.Code), clientWords(c.stderr), f.wantOfMemory())); err != nil {
		return err
	}
	if fed != nil {
		return fmt.Errorf("unpack %s: %w", data.Path, fed)
	}
	if err := f.sent(v, &c); err != nil {
		return err
	}
	drained, err := f.settle(ctx, v, exit.At)
	if err != nil {
		return err
	}
	rec.CPUNS["drained"] = int64(drained.cpu - cpu)
	if f.Plan.Settle.Drain {
		rec.DrainS = &drained.seconds
	}
	// As the last poll saw it: nothing moves any more.
	v.snapshots.Mark("settle", "end", "")
	after, err := v.snapshots.Body(ctx, false)
	if err != nil {
		return err
	}
	if err := f.stored(v, before, after); err != nil {
		return err
	}
	return f.sameProcess(v)
}

// unpacked gives a file through a pipe, unpacked by us, where it is packed; wait returns what went wrong with that.
func unpacked(path string) (feed *os.File, wait func() error, err error) {
	if !strings.HasSuffix(path, ".zst") {
		return nil, func() error { return nil }, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	unpack, err := zstd.NewReader(file)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	feed, in, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(in, unpack)
		unpack.Close()
		_, _ = file.Close(), in.Close()
		if errors.Is(err, unix.EPIPE) {
			err = nil // the loader has ended, and says itself why
		}
		done <- err
	}()
	return feed, func() error { _ = feed.Close(); return <-done }, nil
}

// client is a command of TSBS that is watched. progress is any number that changes while it works; hung says that it never
// will, which is its own fault and no database's.
type client struct {
	verb
	stdout, stderr string
	stallS         float64
	progress       func(*proc.Process) (float64, error)
	stalled        func() error
	hung           func(quiet time.Duration) bool
}

// errHung is a client that has to be started again.
var errHung = errors.New("the client hangs")

// drive runs a client to its end, or to the fault of who does not go on.
func (f *frame) drive(ctx context.Context, v *variant, c *client) (exit proc.Exit, err error) {
	for _, out := range []struct {
		path string
		file **os.File
	}{{c.stdout, &c.verb.stdout}, {c.stderr, &c.verb.stderr}} {
		if *out.file, err = os.Create(out.path); err != nil {
			return exit, err
		}
		defer (*out.file).Close()
	}
	p, err := f.start(v, v.front(), c.verb)
	if err != nil {
		return exit, err
	}
	if c.stdin != nil {
		_ = c.stdin.Close() // the client's now: with ours open the feed would not see it end
	}
	clock := time.NewTicker(watchEvery)
	defer clock.Stop()
	for last, moved := -1.0, time.Now(); ; {
		select {
		case <-p.Ended():
			return p.Wait(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		case <-clock.C:
			if err = f.died(v); err != nil {
				break
			}
			var at float64
			if at, err = c.progress(p); err == nil && at != last {
				last, moved = at, time.Now()
			} else if quiet := time.Since(moved); err == nil && quiet >= record.Seconds(c.stallS) {
				err = c.stalled()
			} else if err == nil && c.hung != nil && c.hung(quiet) {
				err = errHung
			}
		}
		if err != nil {
			if killed := p.Kill(); killed != nil {
				return exit, killed
			}
			return exit, err
		}
	}
}

// acknowledged is the third field of the last whole line of the loader's CSV: samples so far.
func acknowledged(csv string) (samples float64) {
	lines(func(line string) {
		if field := strings.Split(line, ","); strings.HasSuffix(line, "\n") && len(field) > 2 {
			if n, err := strconv.ParseFloat(field[2], 64); err == nil {
				samples = n
			}
		}
	}, csv)
	return samples
}

var status = regexp.MustCompile(`HTTP status \d+`)

func httpStatus(stderr string) string {
	last := "nothing"
	lines(func(line string) { last = first(status.FindString(line), last) }, stderr)
	return last
}

var loaded = regexp.MustCompile(`^loaded (\d+) (metrics|samples) `)

// sent checks what the loader says of itself, before an hour of queries on half the data.
func (f *frame) sent(v *variant, c *client) error {
	samples, complaints, complaint := "no", 0, ""
	lines(func(line string) {
		if found := loaded.FindStringSubmatch(line); found != nil {
			samples = found[1]
		}
	}, c.stdout)
	lines(func(line string) { complaints, complaint = complaints+1, first(complaint, line) }, c.stderr)
	wrong := fmt.Sprintf("the loader says it sent %s samples, and the plan has %d", samples, f.Plan.Workload.Samples)
	if complaints > 0 {
		wrong += "; it says: " + clientWords(c.stderr)
	}
	actual, _ := strconv.ParseFloat(samples, 64)
	if err := f.equal(v, "samples_sent", float64(f.Plan.Workload.Samples), actual, wrong); err != nil {
		return err
	}
	return f.equal(v, "load_retries", 0, float64(complaints), fmt.Sprintf("the loader complained on %d lines of stderr, the first: %s", complaints, scrape.OneLine(complaint)))
}

// drain is how long after the last acknowledged sample the database was quiet, and its servers' CPU clock then.
type drain struct {
	seconds float64
	cpu     time.Duration
}

// settle asks the database to come to rest, and polls until it is: the first of so many quiet polls in a row counts.
func (f *frame) settle(ctx context.Context, v *variant, loadEnd time.Time) (at drain, err error) {
	s := f.begin(v, record.Solo, "settle", "")
	s.listen(v.servers...)
	deadline := time.Now().Add(record.Seconds(f.Plan.Settle.TimeoutS))
	merged, natural := f.Plan.Settle.Mode == "merged", v.target.Quiet
	polls := f.Plan.Settle.Polls
	if merged && !f.Plan.Settle.Drain {
		// A merge that is forced while others run is ignored; what is in memory it takes along.
		natural, polls = v.target.BeforeMerge, 1
	}
	rest := func(mode string, quiet []string, polls int) (drain, error) {
		if _, err := f.ask(ctx, v, v.front(), record.Seconds(f.Plan.Settle.TimeoutS), "settle", "SETTLE_MODE="+mode); err != nil {
			return drain{}, err
		}
		return f.waitQuiet(ctx, v, quiet, polls, loadEnd, deadline)
	}
	if at, err = rest("natural", natural, polls); err != nil {
		return at, err
	}
	if merged {
		v.snapshots.Mark("settle", "begin", "")
		done, err := rest("merged", v.target.Quiet, f.Plan.Settle.Polls)
		if err != nil {
			return at, err
		}
		if !f.Plan.Settle.Drain {
			at = done
		} // else merging because we ask for it is no part of the load's work
	}
	s.over(v.servers...)
	s.close(0, 0)
	return at, nil
}

// waitQuiet polls until the counters in quiet are 0, and those that have to stand still do, so many times in a row.
func (f *frame) waitQuiet(ctx context.Context, v *variant, counters []string, polls int, loadEnd, deadline time.Time) (at drain, err error) {
	quiet, lastStill := 0, -1.0
	// The first look ends the snapshot of the load's end, and is not older than that.
	body, err := v.snapshots.Body(ctx, true)
	for {
		if err != nil {
			return at, err
		}
		now := time.Now()
		busy, still, err := v.work(body, counters)
		switch {
		case err != nil:
			return at, err
		case len(body) > 0 && busy == 0 && (still == lastStill || quiet == 0):
			if quiet++; quiet == 1 {
				at.seconds = now.Sub(loadEnd).Seconds()
				if at.cpu, err = v.cpu(); err != nil {
					return at, f.died(v)
				}
			}
		default:
			quiet = 0
		}
		if lastStill = still; quiet >= polls && len(body) > 0 {
			return at, nil
		}
		if err := f.died(v); err != nil {
			return at, err
		}
		if now.After(deadline) {
			left := fmt.Sprintf("%v still to do", busy)
			if len(body) == 0 {
				left = "its counters cannot be read at " + first(v.front().metrics, v.Target+"/metrics")
			}
			return at, faultf("the database did not settle within %v s: %s; %s", f.Plan.Settle.TimeoutS, left, lastWords(v.front().log))
		}
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(record.Seconds(f.Plan.Settle.PollS)):
		}
		body = v.metrics(ctx)
	}
}

// metrics are the texts of all components; empty where one does not answer.
func (v *variant) metrics(ctx context.Context) (all []byte) {
	for _, s := range v.servers {
		body, err := s.counters(ctx)
		if err != nil {
			return nil
		}
		all = append(append(all, body...), '\n')
	}
	return all
}

// work is how much a database has still to do, and the counters that stand still once it does nothing.
func (v *variant) work(body []byte, quiet []string) (busy, still float64, err error) {
	for _, names := range []struct {
		of  []string
		sum *float64
	}{{quiet, &busy}, {v.target.Still, &still}} {
		for _, name := range names.of {
			value, _, err := scrape.Sum(body, v.target.Counters[name])
			if err != nil {
				return 0, 0, err
			}
			*names.sum += value
		}
	}
	return busy, still, nil
}

// moved is the growth of a counter of the target; a counter that appears meanwhile counts from 0. False where the target
// has no such counter.
func (v *variant) moved(name string, before, after []byte) (grown float64, counter record.Counter, has bool, err error) {
	counter, has = v.target.Counters[name]
	if !has {
		return 0, counter, false, nil
	}
	from, _, err := scrape.Sum(before, counter)
	if err != nil {
		return 0, counter, true, err
	}
	to, found, err := scrape.Sum(after, counter)
	if err == nil && !found {
		err = faultf("could not be checked: %s is not in /metrics", counter.Name)
	}
	return to - from, counter, true, err
}

// grown is the growth of every counter of the target that the server has.
func (v *variant) grown(before, after []byte) map[string]float64 {
	all := map[string]float64{}
	for name := range v.target.Counters {
		if growth, _, _, err := v.moved(name, before, after); err == nil {
			all[name] = growth
		}
	}
	return all
}

// stored checks that the database took and kept everything, and threw nothing away.
func (f *frame) stored(v *variant, before, after []byte) error {
	planned := float64(f.Plan.Workload.Samples)
	a := max(1, v.target.SamplesPerRow)
	for _, c := range []struct {
		check, counter, did string
		expected            float64
	}{
		{"samples_inserted", "inserted", "accepted", planned}, {"samples_stored", "stored", "stored", planned},
		{"samples_ignored", "ignored", "ignored", 0}, {"samples_invalid", "invalid", "called invalid", 0},
	} {
		grown, counter, has, err := v.moved(c.counter, before, after)
		if !has {
			continue
		}
		wrong := fmt.Sprintf("the database %s %.0f samples of %.0f (%s)", c.did, grown*a, planned, counter.Name)
		var missing *fault
		if errors.As(err, &missing) {
			grown, wrong = -1, c.check+" "+missing.message
		} else if err != nil {
			return err
		}
		if err := f.equal(v, c.check, c.expected, grown*a, wrong); err != nil {
			return err
		}
	}
	return nil
}
