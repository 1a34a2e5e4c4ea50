package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tsduel/host/machine"
	"tsduel/host/openloop"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// watchEvery is how often a client and its server are looked at: often enough to see one die, and cheap.
const watchEvery = time.Second

// watch says how clients of TSBS are watched. progress changes while they work. stalled is the fault if it has
// not changed for stallS. hung (nil: never) says to start the client again.
type watch struct {
	stallS   float64
	progress func() (float64, error)
	stalled  func() error
	hung     func(quiet time.Duration) bool
}

var errHung = errors.New("the client hangs")

// untilEnd waits for the end of all clients, or kills them once one of them or a server fails.
func (w *watch) untilEnd(ctx context.Context, v *variant, c *clients) (exit proc.Exit, err error) {
	clock := time.NewTicker(watchEvery)
	defer clock.Stop()
	for last, moved := -1.0, time.Now(); ; {
		select {
		case <-c.ended:
			return c.exit()
		case <-ctx.Done():
			err = ctx.Err()
		case <-clock.C:
			if err = v.died(); err != nil {
				break
			}
			var now float64
			if now, err = w.progress(); err != nil {
				break
			}
			if now != last {
				last, moved = now, time.Now()
			} else if quiet := time.Since(moved); quiet >= record.Seconds(w.stallS) {
				err = w.stalled()
			} else if w.hung != nil && w.hung(quiet) {
				err = errHung
			}
		}
		if err != nil {
			return exit, cmp.Or(c.kill(), err)
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

// clients are commands of TSBS at work: loaders, one a host of a client, or one that sends queries. They are held
// until one instant.
type clients struct {
	all    []*client
	agreed time.Time     // when they begin
	ended  chan struct{} // all have
	failed *client       // the first that did
}

type client struct {
	host           string // "" for the only client
	on             machine.Machine
	ahead          float64 // by so many seconds is its host's clock
	prefix, remote string  // its files begin with this, here and on its own host
	pid            int
	ran            machine.Ran
	err            error
}

// loaders prepares one loader a file. kill has to be called, also after an error.
func (a *alone) loaders(files []record.DataFile) (*clients, error) {
	l := &clients{ended: make(chan struct{})}
	for _, data := range files {
		next := &client{host: data.Host, on: a.hosts[""], prefix: filepath.Join(a.dir, "load")}
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
			path = "/dev/stdin" // it is unpacked there
		}
		w := a.Plan.Workload
		call := verb{name: "load", env: []string{"LOAD_FILE=" + path, "LOAD_RESULTS=" + next.remote + ".json",
			fmt.Sprintf("LOAD_WORKERS=%d", w.Workers), fmt.Sprintf("LOAD_BATCH_SIZE=%d", w.BatchSize),
			fmt.Sprintf("LOAD_BATCH_SAMPLES=%d", int64(w.BatchSize)*w.Samples/max(1, w.Lines))}}
		command := a.writeServer().command(call)
		if w.Loader == "own" { // TSBS's cannot send these lines
			self, err := os.Executable()
			if err != nil {
				return l, err
			}
			command.Argv = []string{"-c", `exec "$0" load`, self} // a held command is one of bash
			command.Env = append(command.Env, "LOAD_FORMAT="+a.target.DataFormat, "LOAD_PATH="+a.target.WritePath,
				"LOAD_TIMEOUT_S="+record.Decimal(a.Plan.Watchdog.LoadStallS))
		}
		held := machine.Held{Command: command, Feed: feed, Out: next.remote + ".csv"}
		if err := l.hold(next, held); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *clients) hold(c *client, held machine.Held) error {
	l.all = append(l.all, c)
	held.Complaints = c.remote + ".stderr"
	return c.on.Hold(held, &c.pid)
}

// letGo lets all clients begin at one instant. It kills the others if one fails.
func (l *clients) letGo() {
	l.agreed = time.Now().Add(leadTime)
	ended := make(chan *client)
	for _, c := range l.all {
		at := machine.Instant{Client: c.pid, At: l.agreed.UnixNano() + int64(c.ahead*1e9)}
		go record.Caught(func() {
			c.err = c.on.LetGo(at, &c.ran)
			ended <- c
		})()
	}
	go record.Caught(func() {
		for range l.all {
			if c := <-ended; l.failed == nil && (c.err != nil || c.ran.Exit.Code != 0) {
				l.failed = c
				_ = l.kill()
			}
		}
		close(l.ended)
	})()
}

// exit is, of clients that have ended, the first failed one's code, the CPU of all, and when the last one ended by
// this host's clock.
func (l *clients) exit() (exit proc.Exit, err error) {
	if l.failed != nil {
		exit.Code, err = l.failed.ran.Exit.Code, l.failed.err
	}
	for _, c := range l.all {
		exit.User, exit.System = exit.User+c.ran.Exit.User, exit.System+c.ran.Exit.System
		if at := c.ran.Exit.At.Add(-record.Seconds(c.ahead)); at.After(exit.At) {
			exit.At = at
		}
	}
	return exit, err
}

func (l *clients) records() (all []record.Client) {
	for _, c := range l.all {
		exit, began := c.ran.Exit, time.Unix(0, c.ran.Began)
		after := began.Add(-record.Seconds(c.ahead)).Sub(l.agreed)
		r := clientOf(c.host, after, exit.At.Sub(began), exit.User+exit.System, c.ran.CPUs)
		r.Samples, _ = samplesSent(c.prefix + ".csv")
		all = append(all, r)
	}
	return all
}

func (l *clients) files(suffix string) (paths []string) {
	for _, c := range l.all {
		paths = append(paths, c.prefix+suffix)
	}
	return paths
}

func (l *clients) bring(suffixes ...string) (err error) {
	for _, c := range l.all {
		for _, suffix := range suffixes {
			err = errors.Join(err, bring(c.on, c.remote+suffix, c.prefix+suffix))
		}
	}
	return err
}

// words name the loader that failed, with its last words.
func (l *clients) words() (name, words string) {
	if l.failed != nil && l.failed.host != "" {
		return "the loader on " + l.failed.host, clientWords(l.failed.prefix + ".stderr")
	}
	return "the loader", clientWords(l.files(".stderr")...)
}

// kill ends the clients that are held or at work.
func (l *clients) kill() (err error) {
	select {
	case <-l.ended:
		return nil
	default:
	}
	for _, c := range l.all {
		if c.pid != 0 {
			err = errors.Join(err, c.on.Kill(c.pid, &machine.None{}))
		}
	}
	return err
}

// bring brings the local copy of a remote file up to date, as far as a log may grow. If the paths are equal, the file
// is local.
func bring(on machine.Machine, remote, local string) error {
	if remote == local {
		return nil
	}
	copied, err := os.OpenFile(local, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer copied.Close()
	info, err := copied.Stat()
	if err != nil {
		return err
	}
	for here := info.Size(); here <= proc.MostLog; {
		var more []byte
		known := min(here, 1) // of the last byte that is here
		if err := on.Log(machine.Piece{Path: remote, From: here - known}, &more); err != nil {
			return err
		}
		switch n := int64(len(more)); {
		case n < known: // it was cut meanwhile
			if err := copied.Truncate(0); err != nil {
				return err
			}
			here = 0
		case n == known:
			return nil
		default:
			if _, err := copied.Write(more[known:]); err != nil {
				return err
			}
			here += n - known
		}
	}
	return nil
}

const (
	// leadTime is from when all clients are ready until they begin: the instant has to reach all of them.
	leadTime = 200 * time.Millisecond
	// clockQuestions is how often each client's clock is read before a phase.
	clockQuestions = 20
)

// runClients runs a phase with all clients, from one instant on. totals are this client's.
func (r *rates) runClients(ctx context.Context, job openloop.Job) (results []*openloop.Result,
	totals openloop.Totals, clients []record.Client, err error) {
	type remote struct {
		number int
		ahead  float64 // by so many seconds is its clock
		looped machine.Looped
		err    error
	}
	remotes := make([]remote, len(r.clients))
	for i, on := range r.clients {
		c := &remotes[i]
		part := job
		part.Part = 1 + i
		if err = on.Prime(part, &c.number); err != nil {
			return nil, totals, nil, err
		}
		if _, c.ahead, err = on.Clock(clockQuestions); err != nil {
			return nil, totals, nil, err
		}
	}
	var agreed time.Time
	var looping sync.WaitGroup
	if len(remotes) > 0 {
		job.Meet = func(context.Context) (time.Time, error) {
			agreed = time.Now().Add(leadTime)
			for i, on := range r.clients {
				c := &remotes[i]
				at := machine.Instant{Client: c.number, At: agreed.UnixNano() + int64(c.ahead*1e9)}
				looping.Go(record.Caught(func() { c.err = on.Loop(at, &c.looped) }))
			}
			return agreed, nil
		}
	}
	own, totals, err := openloop.Run(ctx, job)
	if err != nil {
		return nil, totals, nil, err
	}
	looping.Wait()
	all := [][]*openloop.Result{own}
	began := totals.Began.Sub(agreed)
	clients = append(clients, clientOf(r.Host.Host, began, totals.Elapsed, totals.ClientCPU, len(r.Host.Pin.Client)))
	for i := range remotes {
		c := &remotes[i]
		if c.err != nil {
			return nil, totals, nil, c.err
		}
		began := c.looped.Began.Sub(agreed) - record.Seconds(c.ahead)
		all = append(all, c.looped.Results)
		clients = append(clients, clientOf(r.clients[i].Host, began, c.looped.Elapsed, c.looped.ClientCPU, c.looped.CPUs))
	}
	for i, results := range all {
		for _, result := range results {
			clients[i].Started, clients[i].Lines = clients[i].Started+result.Started, clients[i].Lines+result.Lines
		}
	}
	return openloop.Add(all...), totals, clients, nil
}

func clientOf(host string, began, elapsed, cpu time.Duration, cpus int) record.Client {
	c := record.Client{Host: host, BeganMS: began.Seconds() * 1e3, CPUNS: int64(cpu), CPUs: max(1, cpus)}
	c.Share = cpu.Seconds() / max(1e-3, elapsed.Seconds()) / float64(c.CPUs)
	return c
}

// skew is by how much one client began before another, in ms.
func skew(clients []record.Client) float64 {
	byBegin := func(a, b record.Client) int { return cmp.Compare(a.BeganMS, b.BeganMS) }
	return slices.MaxFunc(clients, byBegin).BeganMS - slices.MinFunc(clients, byBegin).BeganMS
}

// busiest is the client that used most of its CPUs, with its host's name if there are several.
func busiest(clients []record.Client) (share float64, name string) {
	c := slices.MaxFunc(clients, func(a, b record.Client) int { return cmp.Compare(a.Share, b.Share) })
	if len(clients) == 1 {
		return c.Share, "the client"
	}
	return c.Share, "the client on " + c.Host
}
