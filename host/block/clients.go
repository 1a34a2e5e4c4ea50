package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tsduel/host/logs"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/servers"
)

// alone is a variant that runs alone: in its solo part, and when an upgrade loads as much again.
type alone struct {
	*variant
	record *record.SoloRecord
}

func (a *alone) keepCPU(phase string, used servers.Usage) {
	a.record.CPUNS[phase] = used.Sum()
	a.in.byRole(&a.record.CPUNSByRole, phase, used)
}

// watchEvery is how often a client and its server are looked at: often enough to see one die, and cheap.
const watchEvery = time.Second

// watch says how a client of TSBS is watched. progress changes while it works. stalled is the fault if it has not
// changed for stallS. hung (nil: never) says to start the client again.
type watch struct {
	stallS   float64
	progress func() (float64, error)
	stalled  func() error
	hung     func(quiet time.Duration) bool
}

var errHung = errors.New("the client hangs")

// untilEnd waits for the end of a client, or kills it once it or a server fails.
func (w *watch) untilEnd(ctx context.Context, v *variant, c *machine.Client) (exit proc.Exit, err error) {
	clock := time.NewTicker(watchEvery)
	defer clock.Stop()
	for last, moved := -1.0, time.Now(); ; {
		select {
		case <-c.Ended():
			return c.Result(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		case <-clock.C:
			if err = v.Died(); err != nil {
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
			return exit, cmp.Or(c.Kill(), err)
		}
	}
}

var csvLine = regexp.MustCompile(`^[^,]*,[^,]*,([0-9.eE+]+)[,\n]`)

// acknowledged is how many samples the loader has sent so far: the third field of its CSV's last line.
func acknowledged(csv string) float64 {
	samples, _ := strconv.ParseFloat(logs.LastMatch(csvLine, csv), 64)
	return samples
}

// loader starts the loader of a file, whose own files begin with a prefix.
func (a *alone) loader(data record.DataFile, prefix string) (*machine.Client, error) {
	feed := cmp.Or(data.FeedPath, data.Path)
	path := feed
	if strings.HasSuffix(path, ".zst") {
		path = "/dev/stdin" // it is unpacked there
	}
	w := a.in.Plan.Workload
	call := servers.Verb{Name: "load", Env: []string{"LOAD_FILE=" + path, "LOAD_RESULTS=" + prefix + ".json",
		fmt.Sprintf("LOAD_WORKERS=%d", w.Workers), fmt.Sprintf("LOAD_BATCH_SIZE=%d", w.BatchSize),
		fmt.Sprintf("LOAD_BATCH_SAMPLES=%d", int64(w.BatchSize)*w.Samples/max(1, w.Lines))}}
	command := a.WriteServer().Command(call)
	if w.Loader == "own" { // TSBS's cannot send these lines
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		command.Argv = []string{"-c", `exec "$0" load`, self} // a command is one of bash
		command.Env = append(command.Env, "LOAD_FORMAT="+a.Module.DataFormat, "LOAD_PATH="+a.Module.WritePath,
			"LOAD_TIMEOUT_S="+record.Decimal(a.in.Plan.Watchdog.LoadStallS))
	}
	return machine.StartClient(command, feed, prefix+".csv", prefix+".stderr")
}
