// Command tsduel-host owns time and processes on a measured host: it runs the blocks of a plan.
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
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tsduel/host/block"
	"tsduel/host/formats"
	"tsduel/host/gobench"
	"tsduel/host/noise"
	"tsduel/host/pins"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/run"
	"tsduel/host/scrape"
	"tsduel/host/values"
	"tsduel/host/workload"

	"golang.org/x/sys/unix"
)

var errUsage = record.UserError("%s", `usage: tsduel-host COMMAND
  run RUN_DIR HOST [BLOCK...]      run every block of the plan that this host has and that has not been run yet, and a
                                   spare one in place of each BLOCK, whose own host was lost
  detached COMMAND RUN_DIR CACHE HOST [LINE | BLOCK...]
    start, rounds, follow, state, sums, collected, stop: the same, whether or not somebody watches
  stop RUN_DIR HOST PID            ask the driver of a run to stop: after the block that is running, asked again at once
  tidy RUN_DIR                     make the tables of all finished blocks again, from their files
  dump FILE CACHE                  read a user's data (- is stdin) into the cache, and print what it has
  load                             load the user's data, as the verb load of an adapter
  get [--timeout SECONDS] URL      print what a server answers; a path is one of the server at $DB_HOST and $DB_PORT
  expvar [--timeout SECONDS] URL   the same of Go's expvar JSON, as exposition text
  describe DIR                     print what this machine is, with the disk of DIR`)

// kinds has the functions of each kind of run.
var kinds = map[string]run.Kind{
	"tsbs": {Block: block.Run, Phases: block.Phases, Profile: block.Profile, Equip: pins.Equip},
	"gobench": {Block: gobench.Run, Phases: gobench.Phases, Calibrate: gobench.Calibrate,
		Profile: gobench.Profile},
}

func init() {
	if os.Getenv("TSDUEL_DIE_WITH_PARENT") == "1" {
		runtime.LockOSThread() // the signal is bound to this thread: it must not end
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
	}
}

func main() {
	// Ignore SIGPIPE, but not in the processes that we start, as signal.Ignore would.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// Go on after ^Z in the terminal: a driver that stands still in a turn would leave a server held.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP)
	// nohup ignores SIGHUP.
	endings := slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGHUP}, signal.Ignored)
	ctx, _ := signal.NotifyContext(context.Background(), append(endings, syscall.SIGTERM)...)
	code, err := command(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "tsduel: %v\n", err)
		code = 1
		if stop, ok := errors.AsType[*record.Stop](err); ok {
			code = stop.Code
		}
	}
	os.Exit(code)
}

func command(ctx context.Context, args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, errUsage
	}
	name, args := args[0], args[1:]
	switch {
	case name == "run" && len(args) >= 2:
		if err := proc.Subreaper(); err != nil {
			return 0, err
		}
		cache := os.Getenv("TSDUEL_CACHE")
		if cache == "" {
			return 0, record.UserError("TSDUEL_CACHE is not set: start runs with make")
		}
		share := run.Share{Host: args[1]}
		for _, arg := range args[2:] {
			block, err := strconv.Atoi(arg)
			if err != nil {
				return 0, record.UserError("%q is no number of a block", arg)
			}
			share.Lost = append(share.Lost, block)
		}
		defer proc.Leave()
		return run.Run(ctx, args[0], cache, share, kinds), nil
	case name == "detached" && len(args) >= 4:
		return 0, detached(ctx, args[0], args[1], args[2], args[3], args[4:])
	case name == "stop" && len(args) == 3:
		pid, err := strconv.Atoi(args[2])
		if err != nil {
			return 0, record.UserError("%q is no pid", args[2])
		}
		outcome, err := run.Stop(args[0], args[1], pid)
		fmt.Println(outcome)
		return 0, err
	case name == "tidy" && len(args) == 1:
		return 0, values.WriteAll(args[0])
	case (name == "dump" || name == "shape") && len(args) == 2:
		read := map[string]func(context.Context, string, string) (*workload.Dump, error){
			"dump": workload.ReadDump, "shape": workload.MakeShape}
		dump, err := read[name](ctx, args[0], args[1])
		return 0, printed(dump, err)
	case name == "load" && len(args) == 0:
		load, err := formats.LoadOf(os.Getenv)
		if err != nil {
			return 0, err
		}
		return 0, load.Run(ctx, os.Stdout)
	case name == "get" || name == "expvar":
		return 0, get(ctx, name, args)
	case name == "describe" && len(args) == 1:
		facts, err := noise.Describe(args[0])
		return 0, printed(facts, err)
	}
	return 0, errUsage
}

func printed(value any, err error) error {
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	return encoder.Encode(value)
}

func detached(ctx context.Context, verb, runDir, cache, host string, more []string) error {
	d, err := run.NewDetached(runDir, cache, host, more...)
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
		var outcome string
		outcome, err = d.Stop(ctx)
		fmt.Println(outcome)
	case "rounds":
		err = d.Rounds()
	default:
		err = errUsage
	}
	return err
}

// get prints the body at a URL; of expvar as exposition text.
func get(ctx context.Context, name string, args []string) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	timeout := flags.Float64("timeout", 10, "seconds")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		return errUsage
	}
	ctx, cancel := context.WithTimeout(ctx, record.Seconds(*timeout))
	defer cancel()
	at := flags.Arg(0)
	if strings.HasPrefix(at, "/") {
		at = "http://" + os.Getenv("DB_HOST") + ":" + os.Getenv("DB_PORT") + at // it may have a login, which ps would show
	}
	body, err := scrape.Fetch(ctx, at)
	if err == nil && name == "expvar" {
		body, err = scrape.Expvar(body)
	}
	_, _ = os.Stdout.Write(body)
	return err
}
