// Command tsduel-host owns time and processes on a measured host: it runs the blocks of a plan and writes what they gave to raw/.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"tsduel/host/block"
	"tsduel/host/gobench"
	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/run"
	"tsduel/host/scrape"

	"golang.org/x/sys/unix"
)

const usage = `usage: tsduel-host COMMAND
  run RUN_DIR [HOST [BLOCK...]]    run every block of the plan that this host has and that has not been run yet, and a
                                   spare one in place of each BLOCK, whose own host was lost
  detached COMMAND RUN_DIR CACHE [LINE | HOST [BLOCK...]]
    start, rounds, follow, state, sums, collected, stop: the same, whether or not somebody watches
    lend: have this machine run components, as HOST, for the driver of a run on another
  stop RUN_DIR PID                 ask the driver of a run to stop: after the block that is running, asked again at once
  get [--timeout SECONDS] URL      print what a server answers
  expvar [--timeout SECONDS] URL   the same of Go's expvar JSON, as exposition text
  describe DIR                     print what this machine is, with the disk of DIR`

// kinds is what the blocks of each kind of run do.
var kinds = map[string]run.Kind{
	"tsbs":    {Block: block.Run, Profile: block.Profile, Equip: block.Equip},
	"gobench": {Block: gobench.Run, Calibrate: gobench.Calibrate, Profile: gobench.Profile},
}

func init() {
	if os.Getenv("TSDUEL_DIE_WITH_PARENT") == "1" {
		// It holds for the thread that asks, so that has to stay.
		runtime.LockOSThread()
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
	}
}

func main() {
	// A reader of ours that is gone must not end us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	endings := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(s) { // as nohup has it
			endings = append(endings, s)
		}
	}
	ctx, _ := signal.NotifyContext(context.Background(), endings...)
	code, err := command(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "tsduel: %v\n", err)
		var stop *record.Stop
		code = 1
		if errors.As(err, &stop) {
			code = stop.Code
		}
	}
	os.Exit(code)
}

func command(ctx context.Context, args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, record.UserError("%s", usage)
	}
	name, args := args[0], args[1:]
	switch {
	case name == "run" && len(args) >= 1:
		if err := proc.Subreaper(); err != nil {
			return 0, err
		}
		cache := os.Getenv("TSDUEL_CACHE")
		if cache == "" {
			return 0, record.UserError("TSDUEL_CACHE is not set: start runs with make")
		}
		who, err := who(args[1:])
		if err != nil {
			return 0, err
		}
		defer proc.Leave()
		return run.Run(ctx, args[0], cache, who, kinds), nil
	case name == "detached" && len(args) >= 3:
		return 0, detached(ctx, args[0], args[1], args[2], args[3:])
	case name == "stop" && len(args) == 2:
		pid, err := strconv.Atoi(args[1])
		if err != nil {
			return 0, record.UserError("%q is no pid", args[1])
		}
		said, err := run.Stop(args[0], pid)
		fmt.Println(said)
		return 0, err
	case name == "get":
		return 0, get(ctx, args, func(body []byte) ([]byte, error) { return body, nil })
	case name == "expvar":
		return 0, get(ctx, args, scrape.Expvar)
	case name == "describe" && len(args) == 1:
		return 0, show(noise.Describe(args[0]))
	}
	return 0, record.UserError("%s", usage)
}

// who reads HOST and the BLOCKs.
func who(args []string) (who run.Who, err error) {
	for i, arg := range args {
		if i == 0 {
			who.Host = arg
			continue
		}
		block, err := strconv.Atoi(arg)
		if err != nil {
			return who, record.UserError("%q is no number of a block", arg)
		}
		who.Instead = append(who.Instead, block)
	}
	return who, nil
}

func detached(ctx context.Context, verb, runDir, cache string, more []string) error {
	d, err := run.NewDetached(runDir, cache, more...)
	if err != nil {
		return err
	}
	switch verb {
	case "start":
		err = d.Start()
		fmt.Println(d.State())
	case "state":
		fmt.Println(d.State())
	case "follow":
		err = d.Follow(append(more, "1")[0])
	case "sums":
		err = d.Sums(os.Stdout)
	case "collected":
		err = d.Collected()
	case "stop":
		var said string
		said, err = d.Stop(ctx)
		fmt.Println(said)
	case "rounds":
		err = d.Rounds()
	case "lend":
		err = d.Lend()
	case "lending":
		if err = proc.Subreaper(); err == nil {
			defer proc.Leave()
			err = d.Lending(ctx)
		}
	default:
		err = record.UserError("%s", usage)
	}
	return err
}

func get(ctx context.Context, args []string, as func([]byte) ([]byte, error)) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	timeout := flags.Float64("timeout", 10, "seconds")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		return record.UserError("%s", usage)
	}
	ctx, cancel := context.WithTimeout(ctx, record.Seconds(*timeout))
	defer cancel()
	body, err := scrape.Fetch(ctx, flags.Arg(0))
	if err == nil {
		body, err = as(body)
	}
	_, _ = os.Stdout.Write(body)
	return err
}

func show(value any, err error) error {
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	return encoder.Encode(value)
}
