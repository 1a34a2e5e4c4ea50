package exchange

import (
	"bufio"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/timescale/tsbs/pkg/query"
)

type Operation struct {
	Method, Path string // the path with its arguments, as it is sent
	Body         []byte
	Lines        int // of a batch of data; 0 for a query
}

func (o *Operation) String() string { return o.Method + " " + o.Path }

// Source gives one operation after the other and io.EOF after the last.
type Source interface {
	Next() (Operation, error)
	Close() error
}

type queries struct {
	io.Closer
	decoder         *gob.Decoder
	path, arguments string
	around          bool
}

// OpenQueries opens a file of tsbs_generate_queries (a gob stream of query.HTTP) and skips its first queries.
// It adds the arguments to the path of each, as TSBS's own client does for some databases. With around, after the
// last query follows the first.
func OpenQueries(path string, skip int, arguments string, around bool) (Source, error) {
	q := &queries{path: path, arguments: arguments}
	if err := q.open(); err != nil {
		return nil, err
	}
	for n := range skip {
		if _, err := q.Next(); err != nil {
			q.Close()
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s ends after %d queries, and the first asked for is number %d", path, n, skip+1)
			}
			return nil, err
		}
	}
	q.around = around
	return q, nil
}

func (q *queries) open() error {
	file, err := os.Open(q.path)
	if err == nil {
		q.Closer, q.decoder = file, gob.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	}
	return err
}

func (q *queries) Next() (Operation, error) {
	var request query.HTTP // a new one each time: gob does not reset fields that the stream lacks
	err := q.decoder.Decode(&request)
	if errors.Is(err, io.EOF) && q.around {
		if err = cmp.Or(q.Close(), q.open()); err == nil {
			err = q.decoder.Decode(&request)
		}
	}
	if errors.Is(err, io.EOF) {
		return Operation{}, io.EOF
	} else if err != nil {
		return Operation{}, fmt.Errorf("%s is no file of TSBS's HTTP queries: %w", q.path, err)
	}
	path := string(request.Path)
	if len(request.RawQuery) > 0 && !strings.Contains(path, "?") { // InfluxDB's path has its arguments already
		path += "?" + string(request.RawQuery)
	}
	return Operation{Method: string(request.Method), Path: path + q.arguments, Body: request.Body}, nil
}

// Turns gives one operation of each source in turn, and ends with the first source that ends.
func Turns(sources ...Source) Source { return &turns{sources: sources} }

type turns struct {
	sources []Source
	turn    int
}

func (t *turns) Next() (Operation, error) {
	source := t.sources[t.turn%len(t.sources)]
	t.turn++
	return source.Next()
}

func (t *turns) Close() (err error) {
	for _, source := range t.sources {
		err = errors.Join(err, source.Close())
	}
	return err
}

type batches struct {
	io.Closer
	lines *bufio.Reader
	path  string
	size  int
	last  int // bytes of the last batch
}

// OpenBatches reads a file of lines, perhaps .zst, as POST requests to `path` of `size` lines each.
func OpenBatches(file, path string, size int) (Source, error) {
	data, err := Open(file)
	if err != nil {
		return nil, err
	}
	return &batches{Closer: data, lines: bufio.NewReaderSize(data, 4<<20), path: path, size: size}, nil
}

func (b *batches) Next() (Operation, error) {
	body := make([]byte, 0, b.last+b.last/8)
	lines := 0
	for lines < b.size {
		line, err := b.lines.ReadSlice('\n')
		body = append(body, line...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 {
			lines++
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Operation{}, fmt.Errorf("reading lines of data: %w", err)
		}
	}
	if lines == 0 {
		return Operation{}, io.EOF
	}
	b.last = len(body)
	return Operation{Method: "POST", Path: b.path, Body: body, Lines: lines}, nil
}

// Open opens a file of lines, perhaps .zst.
func Open(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".zst") {
		return file, err
	}
	decoder, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1)) // no goroutines, so it needs no Close
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("unpacking %s: %w", path, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{decoder, file}, nil
}
