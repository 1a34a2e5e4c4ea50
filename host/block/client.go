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

	"tsduel/host/formats"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// watchEvery is how often a client and its server are looked at: often enough to see one die, and cheap.
const watchEvery = time.Second

// client is a command of TSBS that is watched. progress changes while it works. stalled is the fault if it
// has not changed for stallS. hung (nil: never) says to start the client again.
type client struct {
	verb
	stdin          *os.File
	stdout, stderr string
	stallS         float64
	progress       func(pid int) (float64, error)
	stalled        func() error
	hung           func(quiet time.Duration) bool
}

// errHung says that a client has to be started again.
var errHung = errors.New("the client hangs")

// drive runs a client to its end, or until it or a server fails.
func (c *client) drive(ctx context.Context, v *variant) (exit proc.Exit, err error) {
	stdout, err := os.Create(c.stdout)
	stderr, failed := os.Create(c.stderr)
	defer func() { _, _ = stdout.Close(), stderr.Close() }()
	if err := errors.Join(err, failed); err != nil {
		return exit, err
	}
	p, err := machine.Execute(v.front().command(c.verb), c.stdin, stdout, stderr)
	if err != nil {
		return exit, err
	}
	_ = c.stdin.Close() // only the client has it now, so that the feed sees when the client ends
	return c.watch(ctx, v, p, p.Pid)
}

// working is a client of queries at work, or all loaders.
type working interface {
	Ended() <-chan struct{}
	Wait(context.Context) (proc.Exit, error)
	Kill() error
}

// watch waits for the end of a client, or kills it once it or a server fails.
func (c *client) watch(ctx context.Context, v *variant, p working, pid int) (exit proc.Exit, err error) {
	clock := time.NewTicker(watchEvery)
	defer clock.Stop()
	for last, moved := -1.0, time.Now(); ; {
		select {
		case <-p.Ended():
			return p.Wait(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		case <-clock.C:
			if err = v.died(); err != nil {
				break
			}
			var now float64
			if now, err = c.progress(pid); err != nil {
				break
			}
			if now != last {
				last, moved = now, time.Now()
			} else if quiet := time.Since(moved); quiet >= record.Seconds(c.stallS) {
				err = c.stalled()
			} else if c.hung != nil && c.hung(quiet) {
				err = errHung
			}
		}
		if err != nil {
			return exit, cmp.Or(p.Kill(), err)
		}
	}
}

var csvLine = regexp.MustCompile(`^[^,]*,[^,]*,([0-9.eE+]+)[,\n]`)

// acknowledged is how many samples loaders have sent so far: the third field of each CSV's last line.
func acknowledged(csvs ...string) (samples float64) {
	for _, csv := range csvs {
		n, _ := strconv.ParseFloat(lastMatch(csvLine, csv), 64)
		samples += n
	}
	return samples
}

// sleep waits for so long, unless ctx ends before.
func sleep(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

// loaders are TSBS's loaders, one a client. All begin at one instant, and each loads its group of the data.
type loaders struct {
	all    []*loader
	agreed time.Time     // when they begin
	ended  chan struct{} // all have
	failed *loader       // the first that did
}

type loader struct {
	host           string // "" for the only client
	on             machine.Machine
	ahead          float64 // by so many seconds is its host's clock
	prefix, remote string  // its files begin with this, here and on its own host
	pid            int
	ran            machine.Ran
	err            error
}

// samplesOf is how many samples the first lines of a file have. Each line of TSBS has as many.
func (v *variant) samplesOf(file string, lines int64) (int64, error) {
	w := v.Plan.Workload
	if w.Told == "" || lines == w.Lines {
		return lines * w.Samples / max(1, w.Lines), nil
	}
	return formats.Count(file, v.target.DataFormat, lines)
}

// loaders prepares one loader a file, and holds it. Kill has to be called, also after an error.
func (a *alone) loaders(files []record.DataFile) (*loaders, error) {
	l := &loaders{ended: make(chan struct{})}
	for _, data := range files {
		next := &loader{host: data.Host, on: a.hosts[""], prefix: filepath.Join(a.dir, "load")}
		if data.Host != "" {
			next.prefix += "-" + data.Host
		}
		next.remote = next.prefix
		if remote, ok := a.hosts[data.Host].(*machine.There); ok {
			next.on, next.remote = remote, filepath.Join(a.dataDir("logs", a.Name), filepath.Base(next.prefix))
			var err error
			if _, next.ahead, err = remote.Clock(clockQuestions); err != nil {
				return l, err
			}
		}
		feed := cmp.Or(data.FeedPath, data.Path)
		path := feed
		if strings.HasSuffix(path, ".zst") {
			path = "-" // it is unpacked into stdin
		}
		w := a.Plan.Workload
		call := verb{name: "load", env: []string{"LOAD_FILE=" + path, "LOAD_RESULTS=" + next.remote + ".json",
			fmt.Sprintf("LOAD_WORKERS=%d", w.Workers), fmt.Sprintf("LOAD_BATCH_SIZE=%d", w.BatchSize),
			fmt.Sprintf("LOAD_BATCH_SAMPLES=%d", int64(w.BatchSize)*w.Samples/max(1, w.Lines))}}
		command := a.written().command(call)
		if w.Loader == "own" { // TSBS's cannot send these lines
			self, err := os.Executable()
			if err != nil {
				return l, err
			}
			command.Argv = []string{"-c", `exec "$0" load`, self} // a held command is one of bash
			command.Env = append(command.Env, "LOAD_FORMAT="+a.target.DataFormat, "LOAD_PATH="+a.target.WritePath,
				fmt.Sprintf("LOAD_TIMEOUT_S=%g", a.Plan.Watchdog.LoadStallS))
		}
		held := machine.Held{Command: command, Feed: feed, Out: next.remote + ".csv",
			Complaints: next.remote + ".stderr"}
		if err := next.on.Hold(held, &next.pid); err != nil {
			return l, err
		}
		l.all = append(l.all, next)
	}
	return l, nil
}

// letGo lets all loaders begin at one instant. It kills the others if one fails.
func (l *loaders) letGo() {
	l.agreed = time.Now().Add(leadTime)
	ended := make(chan *loader)
	for _, loader := range l.all {
		at := machine.Instant{Client: loader.pid, At: l.agreed.UnixNano() + int64(loader.ahead*1e9)}
		go func() {
			loader.err = loader.on.LetGo(at, &loader.ran)
			ended <- loader
		}()
	}
	go func() {
		for range l.all {
			if loader := <-ended; l.failed == nil && (loader.err != nil || loader.ran.Exit.Code != 0) {
				l.failed = loader
				_ = l.Kill()
			}
		}
		close(l.ended)
	}()
}

// Ended is closed when all loaders have ended.
func (l *loaders) Ended() <-chan struct{} { return l.ended }

// Wait returns the first failed loader's code, the CPU of all, and when the last one ended by this host's
// clock.
func (l *loaders) Wait(ctx context.Context) (exit proc.Exit, err error) {
	select {
	case <-l.ended:
	case <-ctx.Done():
		return exit, ctx.Err()
	}
	if l.failed != nil {
		exit.Code, err = l.failed.ran.Exit.Code, l.failed.err
	}
	for _, loader := range l.all {
		exit.User, exit.System = exit.User+loader.ran.Exit.User, exit.System+loader.ran.Exit.System
		if at := loader.ran.Exit.At.Add(-record.Seconds(loader.ahead)); at.After(exit.At) {
			exit.At = at
		}
	}
	return exit, err
}

// clients are the records of several loaders that have ended.
func (l *loaders) clients() (all []record.Client) {
	for _, loader := range l.all {
		exit, began := loader.ran.Exit, time.Unix(0, loader.ran.Began)
		after := began.Add(-record.Seconds(loader.ahead)).Sub(l.agreed)
		c := clientOf(loader.host, after, exit.At.Sub(began), exit.User+exit.System, loader.ran.CPUs)
		c.Samples, _ = samplesSent(loader.prefix + ".csv")
		all = append(all, c)
	}
	return all
}

// files are the local paths of all loaders' files with a suffix.
func (l *loaders) files(suffix string) (paths []string) {
	for _, loader := range l.all {
		paths = append(paths, loader.prefix+suffix)
	}
	return paths
}

// bring brings the files of all loaders up to date here.
func (l *loaders) bring(suffixes ...string) (err error) {
	for _, loader := range l.all {
		for _, suffix := range suffixes {
			err = errors.Join(err, bring(loader.on, loader.remote+suffix, loader.prefix+suffix))
		}
	}
	return err
}

// words name the loader that failed, with its last words.
func (l *loaders) words() (name, words string) {
	if l.failed != nil && l.failed.host != "" {
		return "the loader on " + l.failed.host, clientWords(l.failed.prefix + ".stderr")
	}
	return "the loader", clientWords(l.files(".stderr")...)
}

// Kill ends the loaders that are held or at work.
func (l *loaders) Kill() (err error) {
	select {
	case <-l.ended:
		return nil
	default:
	}
	for _, loader := range l.all {
		if loader.pid != 0 {
			err = errors.Join(err, loader.on.Kill(loader.pid, &machine.None{}))
		}
	}
	return err
}

// bring brings the local copy of a remote file up to date. If the paths are equal, the file is local.
func bring(on machine.Machine, remote, local string) error {
	if remote == local {
		return nil
	}
	copied, err := os.OpenFile(local, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer copied.Close()
	for {
		info, err := copied.Stat()
		if err != nil {
			return err
		}
		var more []byte
		if err := on.Log(machine.Piece{Path: remote, From: info.Size()}, &more); err != nil || len(more) == 0 {
			return err
		}
		if _, err := copied.Write(more); err != nil {
			return err
		}
	}
}
