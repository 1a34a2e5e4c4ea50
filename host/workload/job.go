package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"time"

	"tsduel/host/record"
)

// file is FILE.json. Content is of data only.
type file struct {
	SHA256          string `json:"sha256"`
	Bytes           int64  `json:"bytes"`
	Entries         int64  `json:"entries"` // lines or queries
	ContentChecksum string `json:"content_checksum,omitempty"`
	ContentBytes    int64  `json:"content_bytes,omitempty"`
}

// job is a file to be made.
type job struct {
	plan         *record.Plan
	path         string
	format, form string
	query        *record.QueryType // nil for data
	start, end   time.Time         // of the data
	// behind is "" for the data that is loaded, mixed or continued for data behind its window, and alone for data of
	// another scale.
	behind         string
	lines, samples int64
	entries, bytes int64 // entries are queries, or units of the format
	made           file
}

// isGood says whether a file is whole, and has the planned number of entries.
func (j *job) isGood() (bool, error) {
	if err := record.ReadJSON(j.path+".json", &j.made); err != nil || j.made.Entries != j.entries {
		return false, nil
	}
	sum, size, err := sumOf(j.path)
	if err != nil && !os.IsNotExist(err) {
		return false, err
	}
	return sum == j.made.SHA256 && size == j.made.Bytes, nil
}

// sumOf returns the sha256 of a file and its size, and copies it to other writers.
func sumOf(path string, also ...io.Writer) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(append(also, hash)...), f)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// publish gives a new file its name, and writes its record. That of data has the checksum of the content: the last
// four bytes of a zstd frame, as zstd prints it.
func (j *job) publish(partial string) (err error) {
	j.made.Entries = j.entries
	var end ending
	if j.made.SHA256, j.made.Bytes, err = sumOf(partial, &end); err != nil {
		return err
	}
	if j.query == nil {
		j.made.ContentChecksum = fmt.Sprintf("%08x", binary.LittleEndian.Uint32(end[len(end)-4:]))
	}
	if err := os.Remove(j.path + ".json"); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := record.Publish(partial, j.path); err != nil {
		return err
	}
	return record.WriteJSON(j.path+".json", j.made)
}

// ending keeps the end of a text, since an error is in its last line.
type ending []byte

func (e *ending) Write(text []byte) (int, error) {
	all := append(*e, text[max(0, len(text)-500):]...)
	*e = append((*e)[:0], all[max(0, len(all)-500):]...)
	return len(text), nil
}
