package gobench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

const (
	watchEvery = 500 * time.Millisecond
	// A process that uses less than 1/idleCore of a core is idle: it may have a timer that ticks.
	idleCore     = 100
	stacksWithin = time.Second // for a hanging process to print the stacks of its goroutines
)

// failure is the error of a benchmark: it fails the block, and the run goes on.
type failure string

func (f failure) Error() string { return string(f) }

func failed(format string, args ...any) error { return failure(fmt.Sprintf(format, args...)) }

// side is one variant, and the files for its output.
type side struct {
	name, binary, pattern, dir string
	env                        []string
	stdout, stderr, index      *os.File // index is outputs.tsv: the bytes of stdout of each row
	cpu                        int
	spec                       *record.Spec
	found                      found // by the warm-up
}

func open(spec *record.Spec, name, dir string) (s *side, err error) {
	at := slices.IndexFunc(spec.Plan.Variants, func(v record.Variant) bool { return v.Name == name })
	variant := spec.Plan.Variants[at]
	s = &side{name: name, binary: spec.Builds.Variants[name].Binary, pattern: variant.Bench, spec: spec,
		cpu: cpus(spec.Plan), dir: filepath.Join(spec.Scratch, "bench", filepath.Join("/", variant.Package)),
		env: []string{"TMPDIR=" + filepath.Join(spec.Scratch, "bench", ".tmp")}}
	for _, c := range variant.Components {
		for key, value := range c.Env {
			s.env = append(s.env, key+"="+value)
		}
	}
	err = os.MkdirAll(dir, 0o755)
	files := map[string]**os.File{"bench.txt": &s.stdout, "bench.stderr": &s.stderr, "outputs.tsv": &s.index}
	for name, file := range files {
		if err == nil {
			*file, err = os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
		}
	}
	return s, err
}

// placesDir is the directory of the program that runs, the same for all variants: processes run one by one.
func placesDir(spec *record.Spec) string { return filepath.Join(spec.Scratch, "places") }

func (s *side) close() error {
	return errors.Join(s.stdout.Close(), s.stderr.Close(), s.index.Close(),
		s.spec.Hidden.MaskFile(s.stdout.Name()), s.spec.Hidden.MaskFile(s.stderr.Name()))
}

func cpus(plan *record.Plan) int {
	if plan.GoBench.CPU != nil {
		return *plan.GoBench.CPU
	}
	return len(proc.Allowed())
}

// cleanDirectory makes an empty package directory, with the files that the experiment names.
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

// bench runs the test binary in a clean directory. A benchmark that fails, skips or ends early is an error.
func (s *side) bench(ctx context.Context, what string, args ...string) (o output, err error) {
	began := time.Now()
	if err := s.cleanDirectory(); err != nil {
		return o, err
	}
	program, err := proc.Place(s.binary, filepath.Join(placesDir(s.spec), "01", "01"))
	if err != nil {
		return o, err
	}
	fromOut, fromErr := size(s.stdout), size(s.stderr)
	// Only watch ends a process that takes too long.
	argv := append([]string{program, "-test.run=^$", "-test.v", "-test.count=1", "-test.benchmem", "-test.timeout=0",
		"-test.cpu=" + strconv.Itoa(s.cpu)}, args...)
	p, err := proc.Start(proc.Command{Argv: argv, Env: s.env, Dir: s.dir, Scratch: s.spec.Scratch,
		Stdout: s.stdout, Stderr: s.stderr})
	if err != nil {
		return o, failed("%s cannot be started: %v", what, err)
	}
	stalled := s.watch(ctx, p, what, fromOut+fromErr)
	err = cmp.Or(p.Kill(), proc.EndAll()) // what it has left would use CPU beside the next variant
	o.Exit, _ = p.Wait(context.Background())
	if written := size(s.stdout) + size(s.stderr) - fromOut - fromErr; written > proc.MostLog {
		stalled = failed("%s wrote %d MiB, and %d MiB are the most: its output is cut", what, written>>20, proc.MostLog>>20)
		err = cmp.Or(err, cut(s.stdout, fromOut), cut(s.stderr, fromErr))
	}
	o.from, o.to = fromOut, size(s.stdout)
	o.text = section(s.stdout, o.from, o.to)
	o.results, o.own = ofGo(results(o.text, s.cpu), o.text)
	stderr := section(s.stderr, fromErr, size(s.stderr))
	o.seconds = time.Since(began).Seconds()
	switch words := troubleIn(stderr + "\n" + o.text); {
	case ctx.Err() != nil:
		return o, ctx.Err()
	case err != nil:
		return o, err
	case stalled != nil:
		return o, stalled
	case o.Code != 0:
		return o, failed("%s ended with exit code %d: %s", what, o.Code, cmp.Or(words, lastLine(o.text+stderr)))
	case words != "":
		return o, failed("%s was not measured: %s", what, words)
	case !passed.MatchString(o.text):
		return o, failed("%s ended without PASS: the test binary left before its benchmarks were done", what)
	}
	return o, nil
}

// watch waits for the end of a process, or until it has written too much. It returns an error if the process hangs or
// takes too long. from is how much was written before it.
func (s *side) watch(ctx context.Context, p *proc.Process, what string, from int64) error {
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
			cpu := p.CPU() // an operation may be a program of its own
			if cpu-used > watchEvery/idleCore {
				busy = now
			}
			used = cpu
			var why error
			switch {
			case seen-from > proc.MostLog:
				return nil
			case now.Sub(busy) >= idle:
				why = failed("%s hangs: no output and no CPU for %v s (watchdog.idle_s); its goroutines are in bench.stderr",
					what, idle.Seconds())
			case now.Sub(heard) >= silent:
				why = failed("%s did not end: no output for %v s (watchdog.silent_s); its goroutines are in bench.stderr",
					what, silent.Seconds())
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

// cut keeps the first MiB of what a process wrote from an offset on, and all before it.
func cut(f *os.File, from int64) error {
	const kept = 1 << 20
	if size(f) <= from+kept {
		return nil
	}
	err := f.Truncate(from + kept)
	_, failed := f.WriteString("\n[tsduel has cut the rest of this output]\n")
	return errors.Join(err, failed)
}

func section(f *os.File, from, to int64) string {
	text := make([]byte, to-from)
	n, _ := f.ReadAt(text, from) // less if the disk is full
	return string(text[:n])
}
