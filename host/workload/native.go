package workload

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/storage"
)

// isNative tells VictoriaMetrics' /api/v1/export/native by its first bytes: two times, in half ms since the epoch, one
// not before the other.
func isNative(in *bufio.Reader) bool {
	head, err := in.Peek(nativeHead)
	if err != nil {
		return false
	}
	begin, end := binary.BigEndian.Uint64(head), binary.BigEndian.Uint64(head[8:])
	return begin <= end && end < 1<<52
}

const (
	nativeHead = 16
	nativeMost = 1 << 20 // of a name and of a block, as VictoriaMetrics has it
)

// natives reads native blocks as lines of /api/v1/export, one for each block of at most 8,192 samples of a series.
type natives struct {
	from   *bufio.Reader
	blocks int
	rest   []byte
	name   storage.MetricName
	block  storage.Block
	times  []int64
	values []float64
}

func newNatives(from *bufio.Reader) (io.Reader, error) {
	_, err := from.Discard(nativeHead)
	return &natives{from: from}, err
}

func (n *natives) Read(p []byte) (int, error) {
	if len(n.rest) == 0 {
		if err := n.next(); errors.Is(err, io.EOF) {
			return 0, err
		} else if err != nil {
			return 0, fmt.Errorf("block %d: %w", n.blocks+1, err)
		}
		n.blocks++
	}
	k := copy(p, n.rest)
	n.rest = n.rest[k:]
	return k, nil
}

// next reads a block: io.EOF only behind a whole one.
func (n *natives) next() error {
	name, err := n.part()
	if err != nil {
		return err
	}
	data, err := n.part()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	if err := n.name.Unmarshal(name); err != nil {
		return err
	}
	if tail, err := n.block.UnmarshalPortable(data); err != nil {
		return err
	} else if len(tail) > 0 {
		return fmt.Errorf("%d bytes are left behind its samples", len(tail))
	}
	all := storage.TimeRange{MinTimestamp: math.MinInt64, MaxTimestamp: math.MaxInt64}
	n.times, n.values = n.block.AppendRowsWithTimeRangeFilter(n.times[:0], n.values[:0], all)
	n.rest, err = n.line()
	return err
}

// part reads a length and as many bytes.
func (n *natives) part() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(n.from, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > nativeMost {
		return nil, fmt.Errorf("a part of %d bytes, and VictoriaMetrics writes up to %d", size, nativeMost)
	}
	part := make([]byte, size)
	if _, err := io.ReadFull(n.from, part); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return part, nil
}

func (n *natives) line() ([]byte, error) {
	tags := map[string]string{"__name__": string(n.name.MetricGroup)}
	for _, tag := range n.name.Tags {
		tags[string(tag.Key)] = string(tag.Value)
	}
	line, err := json.Marshal(tags) // in the order of their keys
	line = append(append([]byte(`{"metric":`), line...), `,"values":[`...)
	for _, value := range n.values {
		switch {
		case math.IsNaN(value):
			line = append(line, "null"...)
		case math.IsInf(value, 1):
			line = append(line, `"Infinity"`...)
		case math.IsInf(value, -1):
			line = append(line, `"-Infinity"`...)
		default:
			line = strconv.AppendFloat(line, value, 'g', -1, 64)
		}
		line = append(line, ',')
	}
	line = append(bytes.TrimSuffix(line, []byte{','}), `],"timestamps":[`...)
	for _, at := range n.times {
		line = append(strconv.AppendInt(line, at, 10), ',')
	}
	line = bytes.TrimSuffix(line, []byte{','})
	return append(line, "]}\n"...), err
}
