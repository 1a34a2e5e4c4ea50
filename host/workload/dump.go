package workload

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"tsduel/host/formats"
	"tsduel/host/record"
)

// Dump is what is known of a user's data (workload.file) once it was read. Times are in ms since the epoch.
type Dump struct {
	Key        string              `json:"key"`    // of its directory in the cache
	Format     string              `json:"format"` // of host/formats
	Plain      bool                `json:"plain"`  // TSBS's own loader can send all lines
	Lines      int64               `json:"lines"`
	Samples    int64               `json:"samples"`
	Series     int64               `json:"series"`
	Bytes      int64               `json:"bytes"` // unpacked
	Start      int64               `json:"start"`
	End        int64               `json:"end"`
	Duplicates int64               `json:"duplicates"` // samples of the same series and time as the one before
	Late       int64               `json:"late"`       // samples that are older than one before them in their series
	Numberless int64               `json:"numberless"` // values like NaN and null, which no database keeps: no samples
	Precision  []string            `json:"precision"`  // units of Influx's times, as InfluxDB names them
	Names      []string            `json:"names"`      // of metrics; none if there are more than namesMost
	Labels     map[string][]string `json:"labels"`     // the first values of each
}

const (
	namesMost     = 2000
	labelsMost    = 100     // labels, and values of each
	describedMost = 1 << 16 // series whose labels are kept
	seriesMost    = 4 << 20 // of which the last time is kept: 160 MB
	lineMost      = 64 << 20
)

// ReadDump reads a user's data once, - for stdin, and puts its lines into the cache, if every line is right.
// The data may be packed with gzip, bzip2 or zstd.
func ReadDump(ctx context.Context, path, cache string) (d *Dump, err error) {
	in := os.Stdin
	if path != "-" {
		if in, err = os.Open(path); err != nil {
			return nil, record.UserError("workload.file: %v; give the path of a file", err)
		}
		defer in.Close()
	}
	before, err := in.Stat()
	if err != nil {
		return nil, err
	}
	r := newReader(path)
	var text io.Reader = in
	if before.Mode().IsRegular() {
		text, r.asIs = io.LimitReader(in, before.Size()), true // a file that grows has no end
	}
	d, wrong := r.keep(ctx, text, cache)
	if errors.Is(wrong, errPackAnew) {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		d, wrong = newReader(path).keep(ctx, io.LimitReader(in, before.Size()), cache)
	}
	after, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if path != "-" && (after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime())) {
		return nil, record.UserError("%s: it has changed while it was read: wait until it is written, and plan again", path)
	}
	return d, wrong
}

// keep puts the lines of in into the cache.
func (r *dumpReader) keep(ctx context.Context, in io.Reader, cache string) (*Dump, error) {
	dir := filepath.Join(cache, "workload")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	out, err := os.CreateTemp(dir, "dump.*.new")
	if err != nil {
		return nil, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	if err := errors.Join(r.read(ctx, in, out), out.Close()); err != nil {
		return nil, err
	}
	r.Samples, r.Numberless = r.sink.Samples, r.sink.Numberless
	r.Plain, r.Precision = r.Format == "influx" && r.sink.Escaped == 0, r.sink.Precisions.Names()
	if len(r.names) <= namesMost {
		r.Names = slices.Sorted(maps.Keys(r.names))
	}
	r.Series = int64(len(r.last))
	return &r.Dump, r.publish(out.Name(), dir)
}

type dumpReader struct {
	Dump
	path   string
	number int64 // of the line
	sink   formats.Sink
	last   map[uint64]int64
	names  map[string]bool
	asIs   bool // keep a file of zstd as it is, if its lines are
}

// errPackAnew says that a file of zstd has more than lines of data.
var errPackAnew = errors.New("not only lines of data")

func newReader(path string) *dumpReader {
	r := &dumpReader{path: path, last: map[uint64]int64{}, names: map[string]bool{}}
	r.Start, r.End, r.Labels, r.sink.Each = 1<<62, -1<<62, map[string][]string{}, r.add
	return r
}

func (r *dumpReader) wrong(format string, args ...any) error {
	return record.UserError("%s:%d: %s", r.path, r.number, fmt.Sprintf(format, args...))
}

// read copies the lines of in, packed, to out.
func (r *dumpReader) read(ctx context.Context, in io.Reader, out io.Writer) error {
	source := bufio.NewReaderSize(reader{ctx, in}, 1<<20)
	var header zstd.Header
	head, _ := source.Peek(zstd.HeaderMaxSize)
	if r.asIs = r.asIs && header.Decode(head) == nil && header.HasCheckSum; r.asIs {
		source, out = bufio.NewReaderSize(io.TeeReader(source, out), 1<<20), io.Discard
	}
	text, err := unpacked(source)
	var all counted
	if err == nil {
		buffered := bufio.NewReaderSize(io.TeeReader(text, &all), 1<<16)
		if text = buffered; isNative(buffered) {
			text, err = newNatives(buffered)
		} else if what := noText(buffered); what != "" {
			return record.UserError("%s: %s", r.path, what)
		}
	}
	if err != nil {
		return record.UserError("%s: it is damaged: %v; make the file anew", r.path, err)
	}
	packed, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return err
	}
	defer packed.Close()
	to := bufio.NewWriterSize(packed, 1<<20)
	scanned := bufio.NewScanner(text)
	scanned.Buffer(make([]byte, 1<<20), lineMost)
	var parse formats.Parser
	for scanned.Scan() {
		r.number++
		line := bytes.TrimSpace(bytes.TrimPrefix(scanned.Bytes(), mark))
		if formats.NoData(line) {
			if r.asIs {
				return errPackAnew
			}
			continue
		}
		if parse == nil {
			r.Format = formats.FormatOf(line)
			if parse, err = formats.Of(r.Format); err != nil && !formats.InString(line) {
				return r.wrong("it is no line of Influx, of Prometheus' text, or of VictoriaMetrics' export in JSON; " +
					"write one of these")
			} else if err != nil {
				return r.wrong(inString)
			}
		}
		if err := parse(&r.sink, line); err != nil {
			if !scanned.Scan() && scanned.Err() != nil { // the half of a line that is before a damage
				r.number--
				break
			}
			if r.Format == "influx" && formats.InString(line) {
				return r.wrong(inString)
			}
			return r.wrong("broken line (%s): %.200v; mend or remove it", r.Format, err)
		}
		r.Lines++
		r.Bytes += int64(len(line)) + 1
		if r.asIs {
			continue
		}
		_, _ = to.Write(line)
		if err := to.WriteByte('\n'); err != nil {
			return err
		}
	}
	if err := scanned.Err(); errors.Is(err, bufio.ErrTooLong) {
		r.number++
		return r.wrong("the line has more than %d MiB, and is none of a text format", lineMost>>20)
	} else if err != nil {
		return cmp.Or(ctx.Err(), record.UserError("%s: it breaks off after line %d: %v; make the file anew",
			r.path, r.number, err))
	}
	if r.sink.Samples == 0 {
		return record.UserError("%s: it has no samples; workload.file needs at least one line of data", r.path)
	}
	if r.asIs && r.Bytes != int64(all) {
		return errPackAnew
	}
	return errors.Join(to.Flush(), packed.Close())
}

const inString = "a string goes on in the next line, which InfluxDB takes, and VictoriaMetrics' parser, which reads " +
	"the file, does not: write \\n in its place, or leave the field out"

var mark = []byte("\xef\xbb\xbf") // of UTF-8, at the beginning of each of several files

// noText names what is neither data nor packed in a way that is read, with what to do; "" of text.
func noText(in *bufio.Reader) string {
	head, _ := in.Peek(512)
	for magic, name := range map[string]string{"\xfd7zXZ": "xz", "PK\x03\x04": "zip", "7z\xbc\xaf": "7-Zip",
		"\x04\x22\x4d\x18": "lz4", "\xff\x06\x00\x00sNaPpY": "snappy", "Rar!": "rar", "LZIP": "lzip",
		"\x1f\x9d": "compress", "\x1f\x8b": "gzip, twice", "BZh": "bzip2, twice", "\x28\xb5\x2f\xfd": "zstd, twice"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return "it is packed with " + name + ": unpack it, or pack it with gzip or zstd"
		}
	}
	switch {
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return "it is a tar archive: take the file out of it"
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return "it is UTF-16: save it as UTF-8"
	case bytes.IndexByte(head, 0) >= 0:
		return "it has bytes of 0, as UTF-16 without its first mark and what is no text have: save it as UTF-8"
	}
	return ""
}

// counted counts the bytes that are written to it.
type counted int64

func (c *counted) Write(text []byte) (int, error) {
	*c += counted(len(text))
	return len(text), nil
}

// unpacked looks at the first bytes: gzip, bzip2, zstd, or plain text.
func unpacked(in *bufio.Reader) (io.Reader, error) {
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in)
	case bytes.HasPrefix(magic, []byte("BZh")):
		return bzip2.NewReader(in), nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(in, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(1<<27))
	}
	return in, nil
}

// add notes a sample.
func (r *dumpReader) add(s *formats.Sample) error {
	r.Start, r.End = min(r.Start, s.MS), max(r.End, s.MS)
	last, known := r.last[s.Series]
	switch {
	case known && s.MS == last:
		r.Duplicates++
	case known && s.MS < last:
		r.Late++
		return nil
	case !known:
		if err := r.describe(s); err != nil {
			return err
		}
		if len(r.last) >= seriesMost {
			return nil
		}
	}
	r.last[s.Series] = s.MS
	return nil
}

var errNotUTF8 = errors.New("it is not UTF-8: save the file as UTF-8")

// describe keeps the name and the labels of a new series. The line's bytes are not kept.
func (r *dumpReader) describe(s *formats.Sample) error {
	name := s.Metric
	if s.Field != "" {
		name += "_" + s.Field
	}
	if !utf8.ValidString(name) {
		return errNotUTF8
	}
	if len(r.names) <= namesMost {
		r.names[strings.Clone(name)] = true
	}
	if len(r.last) >= describedMost {
		return nil
	}
	for label, value := range s.Labels {
		if !utf8.ValidString(label) || !utf8.ValidString(value) {
			return errNotUTF8
		}
		values := r.Labels[label]
		if len(values) < labelsMost && (values != nil || len(r.Labels) < labelsMost) && !slices.Contains(values, value) {
			r.Labels[strings.Clone(label)] = append(values, strings.Clone(value))
		}
	}
	return nil
}

// publish puts the lines into the cache under their hash: packed, since the same lines are packed alike.
func (r *dumpReader) publish(partial, dir string) error {
	identity, _, err := sumOf(partial)
	if err != nil {
		return err
	}
	r.Key = identity[:16]
	j := &job{path: filepath.Join(dir, r.Key, "data.zst"), entries: r.Lines}
	if err := os.MkdirAll(filepath.Dir(j.path), 0o755); err != nil {
		return err
	}
	j.made = file{ContentBytes: r.Bytes}
	_ = os.WriteFile(filepath.Join(filepath.Dir(j.path), ".used"), nil, 0o644)
	return j.publish(partial)
}
