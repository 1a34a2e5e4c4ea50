// Command expressions says of queries, by the parser of their own language, what is wrong with them, which of the
// names that they read the data lack, and how far back they read. It is run while a run is planned.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/metrics"
	"time"
)

// What a parser may take for a query: templates of WITH in templates grow without end.
const (
	heapMost = 1 << 30
	timeMost = 10 * time.Second
)

// asked comes on stdin. Names are all that the data have; none if they are not known.
type asked struct {
	Language string   `json:"language"` // metricsql, promql or influxql
	Names    []string `json:"names"`
	Texts    []string `json:"texts"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "tsduel: queries cannot be read: %v\n", err)
		os.Exit(1)
	}
}

// run writes an empty line of JSON once it has begun, and then one for each query. If it ends too early, the query
// without a line has ended it.
func run() error {
	var all asked
	if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
		return err
	}
	names := make(map[string]bool, len(all.Names))
	for _, name := range all.Names {
		names[name] = true
	}
	begun := make(chan struct{})
	go endless(begun)
	out := json.NewEncoder(os.Stdout)
	err := out.Encode(struct{}{})
	for _, text := range all.Texts {
		begun <- struct{}{}
		if err == nil {
			err = out.Encode(Examine(all.Language, text, names))
		}
	}
	return err
}

// endless ends the process if a query takes too much time or memory.
func endless(begun <-chan struct{}) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	look, since := time.NewTicker(50*time.Millisecond), time.Now()
	for {
		select {
		case <-begun:
			since = time.Now()
		case <-look.C:
			if metrics.Read(heap); heap[0].Value.Uint64() > heapMost || time.Since(since) > timeMost {
				os.Exit(3)
			}
		}
	}
}
