package workload

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// TSBS's generators, whose word is not enough: they print their errors among the data, and exit with 0.

// shape is how the data of a format is written.
type shape struct {
	unit      string // what can be counted in it
	lineBytes int    // of one point of one host, at most, about
	counter   func() func(text []byte) int64
}

// shapeOf returns that of a format; most are lines.
func shapeOf(format string) shape {
	if format == "prometheus" {
		return shape{"samples", 2500, func() func([]byte) int64 { return new(framed).count }}
	}
	return shape{"lines", 360, func() func([]byte) int64 {
		return func(text []byte) int64 { return int64(bytes.Count(text, []byte{'\n'})) }
	}}
}

// entries is how many of them the data has.
func (s shape) entries(lines, samples int64) int64 {
	if s.unit == "samples" {
		return samples
	}
	return lines
}

// framed counts the messages, of one sample each, of TSBS's format prometheus: its version, then each behind its length. Both are
// varints.
type framed struct {
	versioned    bool
	left, number uint64 // bytes of a message still to come; the number that is being read
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

// generate runs a generator and sends what it makes to a writer; said is what it wrote on stderr.
func generate(ctx context.Context, spec record.Spec, name string, j *job, to io.Writer, args ...string) (code int, said []byte, err error) {
	// TSBS reads ./config.yaml, silently: an empty directory of our own.
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
	argv := append([]string{filepath.Join(spec.Builds.TSBSBin, name), "--format=" + j.format, "--use-case=" + plan.UseCase, fmt.Sprintf("--scale=%d", plan.Scale),
		"--timestamp-start=" + j.start.Format(time.RFC3339), "--timestamp-end=" + j.end.Format(time.RFC3339)}, args...)
	// A garbage collector that runs less often: a fifth less time.
	p, err := proc.Start(proc.Command{Argv: argv, Env: []string{"GOGC=400"}, Dir: empty, Scratch: spec.Scratch, Stdout: w, Stderr: stderr})
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
	if err != nil {
		return 0, nil, err
	}
	said, err = os.ReadFile(stderr.Name())
	return exit.Code, said, err
}

// makeData packs the generator's data. The bytes are those of the generator, in its order.
func makeData(ctx context.Context, spec record.Spec, j *job) error {
	partial := j.path + ".new"
	defer os.Remove(partial)
	out, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer out.Close()
	// Two at work, so that the generator, the slower of the two, never waits. The default level is the faster one here, too: what it does
	// not write need not be written.
	plan := j.plan.Workload
	z, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(window(plan, j.format)))
	if err != nil {
		return err
	}
	shape := shapeOf(j.format)
	data := &content{count: shape.counter(), tell: func(entries int64) { spec.Events.Progress("data", entries, j.entries) }}
	to := io.MultiWriter(z, data)
	if j.behind == "mixed" && plan.Churn != nil {
		to = &churned{to: to, rule: *plan.Churn, start: j.start.UnixNano()}
	}
	to, flush := ofKind(plan, j.part, to)
	args := []string{fmt.Sprintf("--seed=%d", plan.Seed), "--log-interval=" + plan.Interval}
	if j.of > 1 { // of N groups each has every Nth line of all
		args = append(args, fmt.Sprintf("--interleaved-generation-groups=%d", j.of), fmt.Sprintf("--interleaved-generation-group-id=%d", j.part))
	}
	code, said, err := generate(ctx, spec, "tsbs_generate_data", j, to, args...)
	if err := errors.Join(err, flush(), z.Close(), out.Close()); err != nil {
		return err
	}
	if code != 0 || data.entries != j.entries {
		return record.FailedError("tsbs_generate_data wrote %d %s instead of %d (exit code %d)%s; nothing was kept", data.entries, shape.unit, j.entries, code, firstError(said, data.last()))
	}
	sum, err := frameChecksum(partial)
	if err != nil {
		return err
	}
	j.made = file{ContentChecksum: sum, ContentBytes: data.bytes}
	return j.publish(partial)
}

func makeQueries(ctx context.Context, spec record.Spec, j *job) error {
	partial := j.path + ".new"
	defer os.Remove(partial)
	// Written by us, because the generator does not look at the result of its last write: a full disk would go unseen.
	out, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer out.Close()
	queries := &content{count: func([]byte) int64 { return 0 }, tell: func(int64) {}}
	code, said, err := generate(ctx, spec, "tsbs_generate_queries", j, io.MultiWriter(out, queries), "--query-type="+j.query.TSBS(),
		fmt.Sprintf("--seed=%d", j.query.Seed), fmt.Sprintf("--queries=%d", j.entries))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	made := int64(0)
	// "VictoriaMetrics max of ...: 20000 points", once it is done.
	for _, m := range points.FindAllSubmatch(said, -1) {
		n, _ := strconv.ParseInt(string(m[1]), 10, 64)
		made += n
	}
	if code != 0 || made != j.entries {
		if reason := firstError(said, queries.last()); reason != "" { // a type TSBS knows nothing of
			return record.UserError("queries.types: tsbs_generate_queries makes no %s for %s%s", j.query.Name, j.plan.Workload.UseCase, reason)
		}
		return record.FailedError("tsbs_generate_queries made %d queries of %s instead of %d (exit code %d); nothing was kept", made, j.query.Name, j.entries, code)
	}
	if j.plan.Queries.Alike {
		drawn := j.path + ".alike.new"
		defer os.Remove(drawn)
		if made, err = alike(partial, drawn, j.plan.Workload, j.query.Seed); err != nil || made != j.entries {
			return record.FailedError("%d of %d queries of %s were made alike for all databases: %v; nothing was kept", made, j.entries, j.query.Name, err)
		}
		partial = drawn
	}
	if j.form == "" {
		return j.publish(partial)
	}
	translated := j.path + ".translated.new"
	defer os.Remove(translated)
	if made, err = translate(partial, translated, j.form); err != nil || made != j.entries {
		return record.FailedError("%d of %d queries of %s were translated for %s: %v; nothing was kept", made, j.entries, j.query.Name, j.form, err)
	}
	return j.publish(translated)
}

// window holds the last line of the same host, one time step back, or no tag is found again. Not larger than it must be: small ones
// stay in the processor's cache.
func window(plan *record.WorkloadPlan, format string) int {
	step := float64(shapeOf(format).lineBytes) * float64(plan.Lines) * plan.IntervalS / plan.End.Sub(plan.Start).Seconds()
	size := 1 << 20
	for size < 1<<27 && float64(size) < step*5/4 { // more than 128 MiB would have to be allowed to who unpacks
		size <<= 1
	}
	return size
}

// frameChecksum is the content's checksum, the last four bytes of a zstd frame, as zstd prints it.
func frameChecksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	end := make([]byte, 4)
	if info, err := f.Stat(); err != nil {
		return "", err
	} else if _, err := f.ReadAt(end, info.Size()-4); err != nil {
		return "", err
	}
	slices.Reverse(end) // it is little-endian
	return hex.EncodeToString(end), nil
}

// unpack writes the content of a zstd file. A checksum that does not fit is an error.
func unpack(ctx context.Context, path string, w io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(1<<27))
	if err != nil {
		return err
	}
	defer z.Close()
	if _, err := io.CopyBuffer(w, reader{ctx, z}, make([]byte, 1<<20)); err != nil {
		return fmt.Errorf("unpacking %s: %w", path, err)
	}
	return nil
}

var (
	points    = regexp.MustCompile(`(?m): ([0-9]+) points$`)
	tsbsError = regexp.MustCompile(`(?m)^(?:error|panic): (.*)$`)
)

// firstError is what TSBS says itself, without Go's stack, behind a colon.
func firstError(texts ...[]byte) string {
	for _, text := range texts {
		if m := tsbsError.FindSubmatch(text); m != nil {
			return ": " + strings.ToValidUTF8(string(m[1]), "")
		}
	}
	return ""
}

// content counts entries, and keeps the last bytes: an error is the last line.
type content struct {
	entries, bytes int64
	tail           []byte
	count          func(text []byte) int64
	tell           func(entries int64)
}

func (c *content) Write(text []byte) (int, error) {
	c.entries += c.count(text)
	c.bytes += int64(len(text))
	c.tail = append(c.tail[max(0, len(c.tail)-500):], text[max(0, len(text)-500):]...)
	c.tell(c.entries)
	return len(text), nil
}

func (c *content) last() []byte {
	text := bytes.TrimRight(c.tail, "\n")
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// reader ends with its context.
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
