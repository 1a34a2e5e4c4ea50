package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/timescale/tsbs/pkg/query"

	"tsduel/host/record"
)

// ownQueries writes a user's requests as a file of TSBS's queries, so that all clients read them alike: those
// of plan/requests.txt.gz under the type's key, again and again until there are as many as planned.
func ownQueries(runDir, to string, j *job) error {
	requests, err := requestsOf(filepath.Join(runDir, "plan", "requests.txt.gz"), filepath.Base(j.path), j.query)
	if err != nil {
		return err
	}
	_, err = writeQueries(to, func(k int64) (*query.HTTP, error) {
		if k == j.entries {
			return nil, io.EOF
		}
		return &requests[k%int64(len(requests))], nil
	})
	return err
}

func requestsOf(path, base string, of *record.QueryType) (requests []query.HTTP, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, record.UserError("%s cannot be read: %v; plan a new run", path, err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, record.UserError("%s is damaged: %v; plan a new run", path, err)
	}
	key := []byte(base[:len(base)-len(filepath.Ext(base))])
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		own, request, _ := bytes.Cut(lines.Bytes(), []byte{' '})
		if !bytes.Equal(own, key) {
			continue
		}
		method, at, _ := bytes.Cut(request, []byte{' '})
		requests = append(requests, query.HTTP{HumanLabel: []byte(of.Name), HumanDescription: []byte(of.Name),
			Method: bytes.Clone(method), Path: bytes.Clone(at)})
	}
	if err := lines.Err(); err != nil {
		return nil, record.UserError("%s is damaged: %v; plan a new run", path, err)
	}
	if len(requests) == 0 {
		return nil, fmt.Errorf("%s has no requests of %s (%s)", path, of.Name, key)
	}
	return requests, nil
}
