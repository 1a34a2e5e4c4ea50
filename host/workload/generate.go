package workload

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/formats"
	"tsduel/host/proc"
	"tsduel/host/record"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// TSBS's generators print their errors among the data and exit with 0, so what they write is counted.

// isFramed says whether TSBS writes a format as messages of one sample each, and not as lines.
func isFramed(format string) bool { return format == "prometheus" }

// unitOf is what is counted in a format's data.
func unitOf(format string) string {
	if isFramed(format) {
		return "samples"
	}
	return "lines"
}

// counterOf returns a function that counts the units in consecutive pieces of a text.
func counterOf(format string) func(text []byte) int64 {
	if isFramed(format) {
		return new(framed).count
	}
	return func(text []byte) int64 { return int64(bytes.Count(text, []byte{'\n'})) }
}

// framed counts the messages in TSBS's format prometheus: a version, then each message after its length.
// Version and length are varints. A message is one sample.
type framed struct {
	versioned    bool
	left, number uint64 // bytes of a message still to come; the varint so far
	shift        int
}

func (f *framed) count(text []byte) (ended int64) {
	for len(text) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(text)))
			if text, f.left = text[n:], f.left-n; f.left == 0 {
				ended++
			}
			continue
		}
		digit := text[0]
		text, f.number, f.shift = text[1:], f.number|uint64(digit&0x7f)<<f.shift, f.shift+7
		if digit < 0x80 {
			if f.versioned {
				f.left = f.number
			}
			f.versioned, f.number, f.shift = true, 0, 0
		}
	}
	return ended
}

// generate runs a generator, and writes its stdout to a writer. It returns the exit code and stderr.
func generate(ctx context.Context, spec record.Spec, name string, j *job, to io.Writer, args ...string) (
	code int, complaints []byte, err error) {
	// TSBS silently reads ./config.yaml, so it starts in an empty directory.
	empty := filepath.Join(spec.Scratch, "empty")
	if err := record.PrivateDir(empty); err != nil {
		return 0, nil, err
	}
	stderr, err := os.Create(filepath.Join(spec.Scratch, "generator.stderr"))
	if err != nil {
		return 0, nil, err
	}
	defer stderr.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20) // fewer switches; refused to a user who has many pipes
	plan := j.plan.Workload
	argv := append([]string{filepath.Join(spec.Builds.TSBSBin, name), "--format=" + j.format,
		"--use-case=" + plan.UseCase, fmt.Sprintf("--scale=%d", plan.Scale),
		"--timestamp-start=" + j.start.Format(time.RFC3339), "--timestamp-end=" + j.end.Format(time.RFC3339)}, args...)
	// GOGC=400 saves a fifth of the time.
	p, err := proc.Start(proc.Command{Argv: argv, Env: []string{"GOGC=400"}, Dir: empty, Scratch: spec.Scratch,
		Stdout: w, Stderr: stderr})
	w.Close()
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, p.Kill()) }()
	defer context.AfterFunc(ctx, func() { _ = p.Kill() })()
	if _, err := io.CopyBuffer(to, reader{ctx, r}, make([]byte, 1<<20)); err != nil {
		return 0, nil, fmt.Errorf("writing %s: %w", j.path, err)
	}
	exit, err := p.Wait(ctx)
	if err := cmp.Or(ctx.Err(), err); err != nil { // an interruption also ends the generator
		return 0, nil, err
	}
	complaints, err = os.ReadFile(stderr.Name())
	return exit.Code, complaints, err
}

// makeData packs the generator's data, line by line in its order.
func makeData(ctx context.Context, spec record.Spec, j *job) error {
	partial := j.path + ".new"
	defer os.Remove(partial)
	out, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer out.Close()
	// With a concurrency of 2 the generator never waits. SpeedFastest would be slower: it has more to write.
	plan := j.plan.Workload
	z, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(2),
		zstd.WithWindowSize(window(plan, j.format)))
	if err != nil {
		return err
	}
	tell := func(entries int64) { spec.Events.Progress("data", entries, j.entries) }
	data := &content{count: counterOf(j.format), tell: tell}
	var end ending
	to := &lineWriter{to: io.MultiWriter(z, data, &end), changes: changesOf(j)}
	code, complaints := 0, []byte(nil)
	if plan.OwnData != nil {
		err = later(ctx, filepath.Join(spec.Cache, "workload", plan.Data[0].Key, "data.zst"), j, to)
	} else {
		args := []string{fmt.Sprintf("--seed=%d", plan.Seed), "--log-interval=" + plan.Interval}
		code, complaints, err = generate(ctx, spec, "tsbs_generate_data", j, to, args...)
	}
	if err := errors.Join(err, to.flush(), z.Close(), out.Close()); err != nil {
		return err
	}
	if code != 0 || data.entries != j.entries {
		return record.FailedError("tsbs_generate_data wrote %d %s instead of %d (exit code %d)%s; nothing was kept",
			data.entries, unitOf(j.format), j.entries, code, firstError(complaints, end))
	}
	j.made = file{ContentBytes: data.bytes}
	return j.publish(partial)
}

// later writes the user's lines again, later by a window each time, until there are as many as planned.
func later(ctx context.Context, from string, j *job, to io.Writer) (err error) {
	buffer := bufio.NewWriterSize(to, 1<<20)
	defer func() { err = errors.Join(err, buffer.Flush()) }()
	window := j.plan.Workload.End.Sub(j.plan.Workload.Start).Milliseconds()
	for left, by := j.entries, window; left > 0; by += window {
		sent, err := laterBy(ctx, from, j.format, by, left, buffer)
		if err != nil {
			return err
		}
		left -= sent
	}
	return nil
}

// laterBy writes lines later by so many milliseconds, at most so many lines, and returns their number.
func laterBy(ctx context.Context, from, format string, ms, most int64, to io.Writer) (count int64, err error) {
	lines, err := exchange.OpenBatches(from, "", 1)
	if err != nil {
		return 0, err
	}
	defer lines.Close()
	var moved []byte
	for ; count < most && ctx.Err() == nil; count++ {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return count, nil
		} else if err != nil {
			return count, err
		}
		if moved, err = formats.Moved(moved[:0], bytes.TrimSuffix(line.Body, []byte{'\n'}), format, ms); err != nil {
			return count, err
		}
		if _, err := to.Write(append(moved, '\n')); err != nil {
			return count, err
		}
	}
	return count, ctx.Err()
}

func makeQueries(ctx context.Context, spec record.Spec, j *job) error {
	partial := j.path + ".new"
	defer os.Remove(partial)
	if j.query.Own != "" {
		if err := ownQueries(spec.RunDir, partial, j); err != nil {
			return err
		}
		return j.publish(partial)
	}
	// The generator writes to a pipe, since it ignores the error of its last write to a full disk.
	generated := j.path + ".generated.new"
	defer os.Remove(generated)
	out, err := os.Create(generated)
	if err != nil {
		return err
	}
	defer out.Close()
	var end ending
	code, complaints, err := generate(ctx, spec, "tsbs_generate_queries", j, io.MultiWriter(out, &end),
		"--query-type="+j.query.TSBS(), fmt.Sprintf("--seed=%d", j.query.Seed), fmt.Sprintf("--queries=%d", j.entries))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if reason := firstError(complaints, end); reason != "" { // TSBS does not know the type
		return record.UserError("queries.types: tsbs_generate_queries makes no %s for %s%s",
			j.query.Name, j.plan.Workload.UseCase, reason)
	}
	made, err := rewrite(generated, partial, j.ask)
	if err != nil {
		return record.FailedError("%d of %d queries of %s were written for %s: %v; nothing was kept",
			made, j.entries, j.query.Name, cmp.Or(j.form, j.format), err)
	}
	if code != 0 || made != j.entries {
		return record.FailedError("tsbs_generate_queries made %d queries of %s instead of %d (exit code %d); "+
			"nothing was kept", made, j.query.Name, j.entries, code)
	}
	return j.publish(partial)
}

// window returns the size of zstd's window: it must reach back one time step, to the last line of the same
// host with the same tags. A smaller window is faster, since it stays in the processor's cache.
func window(plan *record.WorkloadPlan, format string) int {
	lineBytes := 360.0 // of one point of one host, roughly, at most
	if isFramed(format) {
		lineBytes = 2500
	}
	step := lineBytes * float64(plan.Lines) * plan.IntervalS / plan.End.Sub(plan.Start).Seconds()
	size := 1 << 20
	for size < 1<<27 && float64(size) < step*5/4 { // zstd unpacks more than 128 MiB only with an option
		size <<= 1
	}
	return size
}

// unpack writes the content of a zstd file. A wrong checksum is an error.
func unpack(ctx context.Context, path string, w io.Writer) error {
	in, err := exchange.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.CopyBuffer(w, reader{ctx, in}, make([]byte, 1<<20)); err != nil {
		return fmt.Errorf("unpacking %s: %w", path, err)
	}
	return nil
}

var tsbsError = regexp.MustCompile(`(?m)^(?:error|panic): (.*)$`)

// firstError returns the first error of TSBS in these texts after a colon, without Go's stack, or "".
func firstError(texts ...[]byte) string {
	for _, text := range texts {
		if m := tsbsError.FindSubmatch(text); m != nil {
			return ": " + strings.ToValidUTF8(string(m[1]), "")
		}
	}
	return ""
}

// content counts entries and bytes.
type content struct {
	entries, bytes int64
	count          func(text []byte) int64
	tell           func(entries int64)
}

func (c *content) Write(text []byte) (int, error) {
	c.entries += c.count(text)
	c.bytes += int64(len(text))
	c.tell(c.entries)
	return len(text), nil
}

// reader ends with ctx.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(into []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(into)
}
