package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tsduel/host/machine"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// prepare makes the block's directories; loaded says that the databases of an earlier block are used (design.reload once).
func (f *frame) prepare() (loaded bool, err error) {
	data := filepath.Join(f.Scratch, "data")
	loaded = f.Plan.Design.Reload == "once"
	for _, m := range f.hosts { // one may have been another run's since
		loaded = loaded && m.ReadOnce(machine.Reading{Dir: f.loadedMark()}, new(int64)) == nil
	}
	fresh := machine.Directories{Make: []string{f.emptyDir(), filepath.Join(data, "copies")}}
	if !loaded {
		fresh.Wipe = []string{data}
	} else if why := record.WhyNotOurs(data); why != "" {
		return false, record.UserError("%s", why)
	} else {
		fresh.Remove = []string{filepath.Join(data, "logs")} // of components: an earlier block's are not this one's
	}
	for _, v := range f.variants {
		fresh.Make = append(fresh.Make, v.data)
		err = errors.Join(err, os.MkdirAll(filepath.Join(v.dir, "query"), 0o777))
	}
	for _, m := range f.hosts {
		err = errors.Join(err, m.Prepare(fresh, &machine.None{}))
	}
	return loaded, err
}

// loadedMark is a directory with the name of the run whose data lie whole on its host; wiped with them.
func (f *frame) loadedMark() string { return filepath.Join(f.Scratch, "data", "whole", f.Plan.Run) }

// solo takes a variant alone from an empty disk to a stopped server, and then, where that is asked for, through TSBS's
// closed loop of queries.
func (f *frame) solo(ctx context.Context, v *variant, loaded bool) (err error) {
	if loaded && !f.Plan.Queries.Solo {
		return f.workOnCopy(v)
	}
	rec := record.SoloRecord{Sizes: map[string]int64{}, CPUNS: map[string]int64{}}
	defer func() { f.block.Solo[v.Name] = rec }()
	if v.snapshots, err = scrape.Create(filepath.Join(v.dir, "metrics.prom.gz"), v.target.Ticks); err != nil {
		return err
	}
	if !loaded {
		for _, step := range []func(context.Context, *variant, *record.SoloRecord) error{f.canary, f.startAlone, f.loadFirst, f.stopAlone} {
			if err := step(ctx, v, &rec); err != nil {
				return err
			}
		}
	}
	if err := f.workOnCopy(v); err != nil {
		return err
	}
	if f.Plan.Queries.Solo {
		if err := f.queries(ctx, v, &rec); err != nil {
			return err
		}
	}
	return v.close(false)
}

// workOnCopy has what comes after the load work on a copy, where later blocks need the directory as the load left it.
func (f *frame) workOnCopy(v *variant) error {
	if f.Plan.Design.Reload != "once" || f.Plan.Design.StartFrom == "baseline" {
		return nil // an upgrade makes copies of its own
	}
	from := v.data
	v.data = filepath.Join(f.Scratch, "data", "copies", v.Name)
	if err := f.everywhere(v, func(m machine.Machine) error { return m.Copy(machine.Pair{From: from, To: v.data}, &machine.None{}) }); err != nil {
		return fmt.Errorf("copy the database of %s: %w", v.Name, err)
	}
	return nil
}

// markLoaded marks the databases as those that later blocks use.
func (f *frame) markLoaded(loaded bool) error {
	if loaded || f.Plan.Design.Reload != "once" || f.block.Status != record.OK {
		return nil
	}
	for _, m := range f.hosts {
		if err := m.Sync(f.Scratch, &machine.None{}); err != nil {
			return err
		}
		if err := m.Prepare(machine.Directories{Make: []string{f.loadedMark()}}, &machine.None{}); err != nil {
			return err
		}
	}
	return nil
}

// canary is that of the machine whose disk the load is for: that of the last component.
func (f *frame) canary(_ context.Context, v *variant, rec *record.SoloRecord) error {
	// What others have written is on the disk before this one is measured.
	if err := f.everywhere(v, func(m machine.Machine) error { return m.Sync(f.Scratch, &machine.None{}) }); err != nil {
		return err
	}
	if limits := f.Plan.Noise; limits == nil || limits.CanaryPct == nil && limits.CanaryFlagPct == nil && limits.CanaryFsyncFlagPct == nil {
		return nil // nobody looks at it
	}
	s := f.begin(v, record.Solo, "canary", "")
	m, _ := f.on(v.Components[len(v.Components)-1].Role)
	canary := &record.Canary{}
	if err := m.Canary(f.Scratch, canary); err != nil {
		return err
	}
	rec.Canary = canary
	s.close(0, 0)
	return nil
}

func (f *frame) startAlone(ctx context.Context, v *variant, rec *record.SoloRecord) (err error) {
	s := f.begin(v, record.Solo, "start", "")
	if rec.StartS, err = f.launch(ctx, v, "", nil); err != nil {
		return err
	}
	s.close(0, 0)
	return nil
}

func (f *frame) stopAlone(ctx context.Context, v *variant, rec *record.SoloRecord) (err error) {
	if _, err := v.snapshots.Edge(ctx, "stop", "begin", ""); err != nil {
		return err
	}
	s := f.begin(v, record.Solo, "stop", "")
	if rec.StopS, err = f.shutdown(ctx, v); err != nil {
		return err
	}
	s.close(0, 0)
	return f.keepSizes(ctx, v, rec)
}

// keepSizes keeps what a stopped variant has on disk, in all and by role.
func (f *frame) keepSizes(ctx context.Context, v *variant, rec *record.SoloRecord) error {
	by, err := f.sizesByRole(ctx, v)
	rec.Sizes, rec.SizesByRole = map[string]int64{}, nil
	for name, of := range by {
		rec.Sizes[name] = usage(of).sum()
		f.byRole(&rec.SizesByRole, name, of)
	}
	return err
}

// keepCPU keeps what was used in a phase, in all and by role.
func (f *frame) keepCPU(rec *record.SoloRecord, of string, used usage) {
	rec.CPUNS[of] = used.sum()
	f.byRole(&rec.CPUNSByRole, of, used)
}

// loadFirst loads the data of the first window into an empty database: each of several clients its group of them.
func (f *frame) loadFirst(ctx context.Context, v *variant, rec *record.SoloRecord) error {
	files := f.Workload.GroupsFor(v.target.DataFormat)
	if data, ok := f.Workload.DataFor(v.target.DataFormat); ok && len(f.clients) == 0 {
		files = []record.DataFile{data}
	}
	if len(files) != 1+len(f.clients) {
		return fmt.Errorf("raw/workload.json has %d files of data in format %q for %d clients", len(files), v.target.DataFormat, 1+len(f.clients))
	}
	return f.load(ctx, v, rec, files, record.Solo, "load")
}

// load loads alone, then waits until the database has nothing left to do with it, and checks that all of it is there. Of several
// files each is another client's.
func (f *frame) load(ctx context.Context, v *variant, rec *record.SoloRecord, files []record.DataFile, part, phase string) error {
	l, err := f.loaders(v, files)
	if err != nil {
		return err
	}
	defer func() { _ = l.Kill() }()
	planned := int64(0)
	for _, data := range files {
		planned += data.Samples
	}
	before, err := v.snapshots.Edge(ctx, "load", "begin", "")
	if err != nil {
		return err
	}
	cpu, err := v.cpuByRole()
	if err != nil {
		return err
	}
	written := v.storageWritten()
	s := f.begin(v, part, phase, "")
	stopTicks := v.snapshots.Ticks(ctx, nil)
	read := f.profile(ctx, "load", firstWindow, v)
	defer read(0)
	v.drained = func() { read(planned) }
	c := client{stallS: f.Plan.Watchdog.LoadStallS}
	c.progress = func(int) (float64, error) {
		err := l.bring(".csv", ".stderr")
		done := acknowledged(l.files(".csv")...)
		f.Events.Progress(phase, int64(done), planned)
		return done, err
	}
	c.stalled = func() error {
		return faultf("no sample was acknowledged for %v s: the server answers %s; %s", c.stallS, httpStatus(l.files(".stderr")...), lastWords(v.written()))
	}
	s.listen(v.servers...)
	exit, wait, err := f.work(ctx, v, &c, l)
	// At once: the last tick may have to wait for an answer.
	if now, gone := v.cpuByRole(); gone == nil {
		f.keepCPU(rec, "load", now.since(cpu))
	}
	stopTicks()
	fed := wait()
	if err != nil {
		return err
	}
	v.snapshots.Mark("load", "end", "")
	s.over()
	s.End, s.ClientUserS, s.ClientSystemS = record.Epoch(exit.At), exit.User.Seconds(), exit.System.Seconds()
	if len(files) > 1 {
		s.Begin = record.Epoch(l.agreed)
	}
	s.close(exit.Code, planned)
	if err := f.leftBy(ctx, exit.Code, v); err != nil {
		return err
	}
	who, said := l.words()
	if err := f.equal(v, "load_exit", 0, float64(exit.Code), fmt.Sprintf("%s ended with %s: %s%s", who, exitWords(exit.Code), said, f.wantOfMemory())); err != nil {
		return err
	}
	if fed != nil {
		return fed
	}
	if len(files) > 1 {
		rec.Clients = l.clients()
		rec.SkewMS = skew(rec.Clients)
		if share, who := busiest(rec.Clients); share > bottleneck {
			f.Events.Note(f.block.Block, v.Name, "", fmt.Sprintf("%s used %.0f %% of its CPUs: it is the bottleneck of the load", who, 100*share))
		}
	}
	if err := f.sent(v, l, planned); err != nil {
		return err
	}
	if len(v.queues()) > 0 {
		if err := f.arrive(ctx, v, planned, before); err != nil {
			return err
		}
		took := time.Since(exit.At).Seconds()
		rec.ArriveS = &took
	}
	drained, err := f.settle(ctx, v, part, exit.At)
	if err != nil {
		return err
	}
	f.keepCPU(rec, "drained", drained.cpu.since(cpu))
	rec.WrittenBytes = drained.written - written
	if f.Plan.Settle.Drain {
		rec.DrainS = &drained.seconds
	}
	// As the last poll saw it: nothing moves any more.
	v.snapshots.Mark("settle", "end", "")
	after, err := v.snapshots.Body(ctx, false)
	if err != nil {
		return err
	}
	if err := f.stored(v, planned, before, after); err != nil {
		return err
	}
	return f.sameProcess(v)
}

var (
	loaded = regexp.MustCompile(`^loaded (\d+) (metrics|samples) `)
	// A loader that was told to wait says so on stdout, and sends the batch once more.
	backoff = regexp.MustCompile(`^\[worker \d+\] backoff took `)
)

// loadedBy is how many samples loaders say that they have sent, and that in words.
func loadedBy(csvs ...string) (samples int64, said string) {
	said = "no"
	lines(func(line string) {
		if found := loaded.FindStringSubmatch(line); found != nil {
			n, _ := strconv.ParseInt(found[1], 10, 64)
			samples += n
			said = strconv.FormatInt(samples, 10)
		}
	}, csvs...)
	return samples, said
}

// sent checks what the loaders say of themselves, before an hour of queries on half the data.
func (f *frame) sent(v *variant, l *loaders, planned int64) error {
	complaints, complaint := 0, ""
	complain := func(line string) { complaints, complaint = complaints+1, cmp.Or(complaint, line) }
	lines(func(line string) {
		if backoff.MatchString(line) {
			complain(line)
		}
	}, l.files(".csv")...)
	lines(complain, l.files(".stderr")...)
	samples, said := loadedBy(l.files(".csv")...)
	wrong := fmt.Sprintf("the loader says it sent %s samples, and the plan has %d", said, planned)
	if len(l.all) > 1 {
		wrong = fmt.Sprintf("the loaders of %d clients say they sent %s samples together, and the plan has %d", len(l.all), said, planned)
	}
	if complaints > 0 {
		_, words := l.words()
		wrong += "; it says: " + words
	}
	if err := f.equal(v, "samples_sent", float64(planned), float64(samples), wrong); err != nil {
		return err
	}
	return f.equal(v, "load_retries", 0, float64(complaints), fmt.Sprintf("the loader complained on %d lines, the first: %s", complaints, scrape.OneLine(complaint)))
}

// moved is the growth of a counter of the target; a counter that appears meanwhile counts from 0. Missing is what
// to say where it is not there.
func (v *variant) moved(check string, counter record.Counter, before, after []byte) (grown float64, missing string, err error) {
	from, _, err := scrape.Sum(before, counter)
	if err != nil {
		return 0, "", err
	}
	to, found, err := scrape.Sum(after, counter)
	if !found {
		from, missing = to, fmt.Sprintf("%s could not be checked: %s is not in /metrics", check, counter.Name)
	}
	return to - from, missing, err
}

// grown is the growth of every counter of the target that the server has.
func (v *variant) grown(before, after []byte) map[string]float64 {
	all := map[string]float64{}
	for name, counter := range v.target.Counters {
		if growth, missing, err := v.moved(name, counter, before, after); err == nil && missing == "" {
			all[name] = growth
		}
	}
	return all
}

// stored checks that the database took and kept so many samples, and threw nothing away.
func (f *frame) stored(v *variant, samples int64, before, after []byte) error {
	planned := float64(samples)
	a := max(1, v.target.SamplesPerRow)
	for _, c := range []struct {
		check, counter, did string
		expected            float64
	}{
		{"samples_inserted", "inserted", "accepted", planned}, {"samples_stored", "stored", "stored", planned},
		{"samples_ignored", "ignored", "ignored", 0}, {"samples_invalid", "invalid", "called invalid", 0},
	} {
		counter, has := v.target.Counters[c.counter]
		if !has {
			continue
		}
		grown, missing, err := v.moved(c.check, counter, before, after)
		if err != nil {
			return err
		}
		wrong := fmt.Sprintf("the database %s %.0f samples of %.0f (%s)", c.did, grown*a, planned, counter.Name)
		if queues := v.queues(); len(queues) > 0 && grown*a < planned {
			wrong += fmt.Sprintf("; %s acknowledged them, and nothing came for %v s", strings.Join(queues, " and "), f.Plan.Watchdog.LoadStallS)
		}
		if missing != "" {
			grown, wrong = -1, missing
		}
		if err := f.equal(v, c.check, c.expected, grown*a, wrong); err != nil {
			return err
		}
	}
	return nil
}
