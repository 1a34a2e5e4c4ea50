package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// loaders are TSBS's loader on every client. Of several each has its own group of the data, is held until all are ready, and
// goes on at an instant that all agree on.
type loaders struct {
	all    []*loader
	agreed time.Time
	ended  chan struct{} // all have
	failed *loader       // the first that did
}

type loader struct {
	host        string
	on          machine.Machine
	ahead       float64 // by so many seconds is its clock
	call        verb
	feed        string
	here, there string // what its files begin with, and on its own host
	pid         int
	ran         machine.Ran
	err         error
}

// loaders has several held; one is started by work.
func (f *frame) loaders(v *variant, files []record.DataFile) (l *loaders, err error) {
	l = &loaders{ended: make(chan struct{})}
	defer func() {
		if err != nil {
			_ = l.Kill()
		}
	}()
	for _, data := range files {
		one := &loader{host: data.Host, on: f.hosts[""], here: filepath.Join(v.dir, "load"), feed: cmp.Or(data.FeedPath, data.Path)}
		if len(files) > 1 {
			one.here += "-" + data.Host
		}
		one.there = one.here
		if there, apart := f.hosts[data.Host].(*machine.There); apart {
			one.on, one.there = there, filepath.Join(f.Scratch, "data", "logs", v.Name, filepath.Base(one.here))
			if _, one.ahead, err = there.Clock(clockQuestions); err != nil {
				return nil, err
			}
		}
		path := one.feed
		if strings.HasSuffix(path, ".zst") {
			path = "-" // it comes by stdin, unpacked
		}
		one.call = verb{name: "load", env: []string{"LOAD_FILE=" + path, "LOAD_RESULTS=" + one.there + ".json",
			fmt.Sprintf("LOAD_WORKERS=%d", f.Plan.Workload.Workers), fmt.Sprintf("LOAD_BATCH_SIZE=%d", f.Plan.Workload.BatchSize),
			fmt.Sprintf("LOAD_BATCH_SAMPLES=%d", int64(f.Plan.Workload.BatchSize)*f.Plan.Workload.Samples/max(1, f.Plan.Workload.Lines))}}
		if len(files) > 1 {
			held := machine.Held{Command: f.command(v, v.written(), one.call), Feed: one.feed, Out: one.there + ".csv", Complaints: one.there + ".stderr"}
			if err = one.on.Hold(held, &one.pid); err != nil {
				return nil, err
			}
		}
		l.all = append(l.all, one)
	}
	return l, nil
}

// work has them load. What they read and wrote is whole once fed has returned.
func (f *frame) work(ctx context.Context, v *variant, c *client, l *loaders) (exit proc.Exit, fed func() error, err error) {
	if len(l.all) > 1 {
		l.letGo()
		exit, err = f.watch(ctx, v, c, l, 0)
		return exit, func() error { return l.bring(".csv", ".stderr", ".json") }, err
	}
	one := l.all[0]
	c.verb, c.stdout, c.stderr = one.call, one.here+".csv", one.here+".stderr"
	if c.stdin, fed, err = machine.Unpacked(one.feed); err != nil {
		return exit, func() error { return nil }, err
	}
	exit, err = f.drive(ctx, v, c)
	return exit, fed, err
}

// letGo lets all go. What is left of them once one has failed is of no use.
func (l *loaders) letGo() {
	l.agreed = time.Now().Add(leadTime)
	ended := make(chan *loader)
	for _, one := range l.all {
		at := machine.Instant{Client: one.pid, At: l.agreed.UnixNano() + int64(one.ahead*1e9)}
		go func() {
			one.err = one.on.LetGo(at, &one.ran)
			ended <- one
		}()
	}
	go func() {
		for range l.all {
			if one := <-ended; l.failed == nil && (one.err != nil || one.ran.Exit.Code != 0) {
				l.failed = one
				_ = l.Kill()
			}
		}
		close(l.ended)
	}()
}

// Ended is of working.
func (l *loaders) Ended() <-chan struct{} { return l.ended }

// Wait is how they ended: the code of the first that failed, the CPU of all, when the last one had, by this host's clock.
func (l *loaders) Wait(ctx context.Context) (exit proc.Exit, err error) {
	select {
	case <-l.ended:
	case <-ctx.Done():
		return exit, ctx.Err()
	}
	if l.failed != nil {
		exit.Code, err = l.failed.ran.Exit.Code, l.failed.err
	}
	for _, one := range l.all {
		exit.User, exit.System = exit.User+one.ran.Exit.User, exit.System+one.ran.Exit.System
		if at := one.ran.Exit.At.Add(-record.Seconds(one.ahead)); at.After(exit.At) {
			exit.At = at
		}
	}
	return exit, err
}

// clients are those of several, as they began, worked and ended.
func (l *loaders) clients() (all []record.Client) {
	for _, one := range l.all {
		began, used := time.Unix(0, one.ran.Began).Add(-record.Seconds(one.ahead)), one.ran.Exit.User+one.ran.Exit.System
		c := record.Client{Host: one.host, BeganMS: began.Sub(l.agreed).Seconds() * 1e3, CPUNS: int64(used), CPUs: max(1, one.ran.CPUs)}
		elapsed := max(1e-3, one.ran.Exit.At.Sub(time.Unix(0, one.ran.Began)).Seconds())
		c.Share = used.Seconds() / elapsed / float64(c.CPUs)
		c.Samples, _ = loadedBy(one.here + ".csv")
		all = append(all, c)
	}
	return all
}

// files are one of each, here.
func (l *loaders) files(suffix string) (paths []string) {
	for _, one := range l.all {
		paths = append(paths, one.here+suffix)
	}
	return paths
}

// bring has them all here, as far as they are written.
func (l *loaders) bring(suffixes ...string) (err error) {
	for _, one := range l.all {
		for _, suffix := range suffixes {
			err = errors.Join(err, bring(one.on, one.there+suffix, one.here+suffix))
		}
	}
	return err
}

// words are who has failed, else the loader, and its own.
func (l *loaders) words() (who, said string) {
	if l.failed != nil {
		return "the loader on " + l.failed.host, clientWords(l.failed.here + ".stderr")
	}
	return "the loader", clientWords(l.files(".stderr")...)
}

// Kill ends those that are held or at work.
func (l *loaders) Kill() (err error) {
	select {
	case <-l.ended:
		return nil
	default:
	}
	for _, one := range l.all {
		if one.pid != 0 {
			err = errors.Join(err, one.on.Kill(one.pid, &machine.None{}))
		}
	}
	return err
}
