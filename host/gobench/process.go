package gobench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

const (
	// How often a process is looked at. A hundredth of a core is a timer that ticks, not work.
	watchEvery = 500 * time.Millisecond
	idleCore   = 100
	// For Go to say what its goroutines wait for.
	stacksWithin = time.Second
)

// failure is a benchmark's own: it fails the block, and the run goes on.
type failure string

func (f failure) Error() string { return string(f) }

func failed(format string, args ...any) error { return failure(fmt.Sprintf(format, args...)) }

// side is one variant: what is run of it, and where its output goes.
type side struct {
	name, binary, pattern, dir string
	env                        []string
	stdout, stderr, index      *os.File // index: outputs.tsv, which bytes of stdout are a row's
	cpu                        int
	spec                       *record.Spec
}

// open makes the variant's directory below dir, with the files that its processes write into.
func open(spec *record.Spec, name, dir string) (s *side, err error) {
	variant, _ := spec.Plan.Variant(name)
	s = &side{name: name, binary: spec.Builds.Variants[name].Binary, pattern: variant.Bench, spec: spec, cpu: cpus(spec.Plan)}
	s.dir = filepath.Join(spec.Scratch, "bench", filepath.Join("/", variant.Package))
	// What shapes Go's runtime comes from the experiment, or from nowhere.
	s.env = []string{"GOGC=", "GOMEMLIMIT=", "GODEBUG=", "GOMAXPROCS=", "GOTRACEBACK=", "TMPDIR=" + filepath.Join(spec.Scratch, "bench", ".tmp")}
	for _, c := range variant.Components {
		for key, value := range c.Env {
			s.env = append(s.env, key+"="+value)
		}
	}
	err = os.MkdirAll(dir, 0o755)
	for name, file := range map[string]**os.File{"bench.txt": &s.stdout, "bench.stderr": &s.stderr, "outputs.tsv": &s.index} {
		if err == nil {
			*file, err = os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
		}
	}
	return s, err
}

func (s *side) close() error { return errors.Join(s.stdout.Close(), s.stderr.Close(), s.index.Close()) }

func cpus(plan *record.Plan) int {
	if plan.GoBench.CPU != nil {
		return *plan.GoBench.CPU
	}
	return len(proc.Allowed())
}

// cleanDirectory is as the package's own is, but with nothing in it that was not asked for.
func (s *side) cleanDirectory() error {
	root := filepath.Join(s.spec.Scratch, "bench")
	if err := record.Wipe(root); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(s.dir, 0o700), os.MkdirAll(filepath.Join(root, ".tmp"), 0o700)); err != nil {
		return err
	}
	files := filepath.Join(filepath.Dir(s.binary), "files")
	if _, err := os.Stat(files); err != nil {
		return nil
	}
	return os.CopyFS(root, os.DirFS(files))
}

// output is what one process printed: text is its stdout, of the bytes from..to of bench.txt.
type output struct {
	text         string
	from, to     int64
	seconds      float64 // with the making of its directory
	begin, end   time.Time
	user, system time.Duration
	code         int
	results      []result
	stderr       string
}

// bench runs the test binary with these arguments in a clean directory, watched. What failed, skipped or was cut short is an error.
func (s *side) bench(ctx context.Context, what string, args ...string) (o output, err error) {
	began := time.Now()
	if err := s.cleanDirectory(); err != nil {
		return o, err
	}
	fromOut, fromErr := size(s.stdout), size(s.stderr)
	// -test.timeout is off, so that the watchdog is the only clock.
	argv := append([]string{s.binary, "-test.run=^$", "-test.v", "-test.count=1", "-test.benchmem", "-test.timeout=0", "-test.cpu=" + strconv.Itoa(s.cpu)}, args...)
	o.begin = time.Now()
	p, err := proc.Start(proc.Command{Argv: argv, Env: s.env, Dir: s.dir, Scratch: s.spec.Scratch, Stdout: s.stdout, Stderr: s.stderr})
	if err != nil {
		return o, failed("%s cannot be started: %v", what, err)
	}
	stalled := s.watch(ctx, p, what)
	err = p.Kill() // and what it has left
	exit, _ := p.Wait(context.Background())
	o.end, o.user, o.system, o.code = exit.At, exit.User, exit.System, exit.Code
	o.from, o.to = fromOut, size(s.stdout)
	o.text, o.stderr = section(s.stdout, o.from, o.to), section(s.stderr, fromErr, size(s.stderr))
	o.results = results(o.text, s.cpu)
	o.seconds = time.Since(began).Seconds()
	switch words := troubleIn(o.stderr + "\n" + o.text); {
	case ctx.Err() != nil:
		return o, ctx.Err()
	case err != nil:
		return o, err
	case stalled != nil:
		return o, stalled
	case o.code != 0 && words == "":
		return o, failed("%s ended with exit code %d: %s", what, o.code, lastLine(o.text+o.stderr))
	case o.code != 0:
		return o, failed("%s ended with exit code %d: %s", what, o.code, words)
	case words != "":
		return o, failed("%s was not measured: %s", what, words)
	case !strings.Contains("\n"+o.text, "\nPASS\n"):
		return o, failed("%s ended without PASS: the test binary left before its benchmarks were done", what)
	}
	return o, nil
}

// watch returns when the process has ended, or an error when it has to be: by ctx, since it hangs, or since it does not end.
func (s *side) watch(ctx context.Context, p *proc.Process, what string) error {
	idle, silent := record.Seconds(s.spec.Plan.Watchdog.IdleS), record.Seconds(s.spec.Plan.Watchdog.SilentS)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var seen int64
	var used time.Duration
	heard, busy := time.Now(), time.Now()
	for {
		select {
		case <-p.Ended():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case now := <-ticker.C:
			if written := size(s.stdout) + size(s.stderr); written != seen {
				seen, heard, busy = written, now, now
			}
			cpu, _ := proc.CPU(p.Pid) // it has ended: the next turn sees that
			if cpu-used > watchEvery/idleCore {
				busy = now
			}
			used = cpu
			var why error
			switch {
			case now.Sub(busy) >= idle:
				why = failed("%s hangs: no output and no CPU for %v s (watchdog.idle_s); its goroutines are in bench.stderr", what, idle.Seconds())
			case now.Sub(heard) >= silent:
				why = failed("%s did not end: no output for %v s (watchdog.silent_s); its goroutines are in bench.stderr", what, silent.Seconds())
			default:
				continue
			}
			_ = syscall.Kill(p.Pid, syscall.SIGQUIT)
			select {
			case <-p.Ended():
			case <-time.After(stacksWithin):
			}
			return why
		}
	}
}

func size(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func section(f *os.File, from, to int64) string {
	text := make([]byte, to-from)
	n, _ := f.ReadAt(text, from) // what a full disk cut off is not there
	return string(text[:n])
}
