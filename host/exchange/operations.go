package exchange

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/timescale/tsbs/pkg/query"
)

// Operation is one request.
type Operation struct {
	Method, Path string // the path with its arguments, as it goes over the wire
	Body         []byte
	Lines        int // of a batch of data, 0 for a query
}

func (o *Operation) String() string { return o.Method + " " + o.Path }

// Source gives one operation after the other and io.EOF after the last.
type Source interface {
	Next() (Operation, error)
	Close() error
}

type queries struct {
	file    io.ReadCloser
	path    string
	decoder *gob.Decoder
	more    string
}

// OpenQueries opens a file of tsbs_generate_queries (a gob stream of query.HTTP) behind its first `skip` queries; arguments
// are added to the path of each, as TSBS's own client does for some databases.
func OpenQueries(path string, skip int, arguments string) (Source, error) {
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	q := &queries{file: file, path: path, decoder: gob.NewDecoder(bufio.NewReaderSize(file, 1<<20)), more: arguments}
	for n := range skip {
		if _, err := q.Next(); err != nil {
			file.Close()
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s ends after %d queries, and the first asked for is number %d", path, n, skip+1)
			}
			return nil, err
		}
	}
	return q, nil
}

func (q *queries) Next() (Operation, error) {
	var one query.HTTP // a fresh one each time: gob leaves fields that are not in the stream as they were
	switch err := q.decoder.Decode(&one); {
	case errors.Is(err, io.EOF):
		return Operation{}, io.EOF
	case err != nil:
		return Operation{}, fmt.Errorf("%s is no file of TSBS's HTTP queries: %w", q.path, err)
	}
	path := string(one.Path)
	if len(one.RawQuery) > 0 && !strings.Contains(path, "?") { // InfluxDB's path has all, and its query in plain words there
		path += "?" + string(one.RawQuery)
	}
	return Operation{Method: string(one.Method), Path: path + q.more, Body: one.Body}, nil
}

func (q *queries) Close() error { return q.file.Close() }

type batches struct {
	file  io.ReadCloser
	lines *bufio.Reader
	path  string
	size  int
	last  int // bytes of the last batch
}

// OpenBatches reads a data file of lines (packed if its name ends in .zst) as POST requests to `path`, `size` lines each.
func OpenBatches(file, path string, size int) (Source, error) {
	data, err := open(file)
	if err != nil {
		return nil, err
	}
	return &batches{file: data, lines: bufio.NewReaderSize(data, 4<<20), path: path, size: size}, nil
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

func (b *batches) Close() error { return b.file.Close() }

type packed struct {
	*zstd.Decoder
	file *os.File
}

func (p packed) Close() error {
	p.Decoder.Close()
	return p.file.Close()
}

func open(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".zst") {
		return file, err
	}
	decoder, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("unpacking %s: %w", path, err)
	}
	return packed{decoder, file}, nil
}
