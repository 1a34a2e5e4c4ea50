// Package bound says how much is read of what is not trusted: a measured server, and
// what its programs print. A buffer grows by what has come, and never by what was announced.
package bound

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Bytes at most. Tests set less.
var (
	// Answers are those of one server to queries that are held at once. The largest of TSBS (high-cpu-all, 4,000 hosts)
	// has 350 MB.
	Answers int64 = 1 << 30
	// Parsed is an answer that is read as JSON, which takes up to 20 times its bytes.
	Parsed = 256 << 20
	// Headers are those of one answer, with the interim ones before it. Databases send less than 1 KiB.
	Headers int64 = 1 << 20
	// Counters are /metrics, /debug/vars, or what a verb prints. Large clusters have 3 MB.
	Counters int64 = 64 << 20
	// Profile is a profile, unpacked. A busy VictoriaMetrics has 2 MB.
	Profile int64 = 32 << 20
	// Line is one of a log or of a client's output: what is behind it is left out.
	Line = 64 << 10
)

// Theirs is an error of what has come: it is the sender's fault.
type Theirs string

func (t Theirs) Error() string { return string(t) }

// More says of what more has come than a bound.
func More(most int64, of string) Theirs {
	return Theirs(fmt.Sprintf("%s of more than %d MiB, and tsduel reads no more", of, most>>20))
}

// File reads a file, if it is not larger than a bound.
func File(path string, most int64, of string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Read(file, most, of)
}

// Read reads all of a source, if it is not more than a bound.
func Read(from io.Reader, most int64, of string) ([]byte, error) {
	var all bytes.Buffer
	n, err := all.ReadFrom(io.LimitReader(from, most+1))
	if n > most {
		return nil, More(most, of)
	}
	return all.Bytes(), err
}
