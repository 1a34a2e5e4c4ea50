// Package profiles adds up what pprof says of one program in parts, and keeps it: as pprof's own file, and as stacks of names for
// who draws them without a library.
package profiles

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// ErrEmpty says that a profile has no sample.
var ErrEmpty = errors.New("it has no sample")

// drawn are the values that are kept as stacks: ns of CPU, bytes that were allocated and that are held, ns of waiting.
var drawn = []string{"cpu", "alloc_space", "inuse_space", "delay"}

// reading is what it costs to be read, which is left out of the stacks.
var reading = regexp.MustCompile(`^(runtime|net/http)/pprof\.`)

// Sum is a profile in parts. Its zero value has none yet.
type Sum struct{ whole *profile.Profile }

// Add adds a profile of a time of its own.
func (s *Sum) Add(text []byte) error {
	part, err := profile.ParseData(text)
	if err != nil {
		return fmt.Errorf("it is no profile: %w", err)
	}
	return s.merge(part)
}

// Grown adds what a program counts from its start by how much that has grown from one look to another; what it holds is as of the
// last look.
func (s *Sum) Grown(before, after []byte) error {
	from, err := profile.ParseData(before)
	if err != nil {
		return fmt.Errorf("it is no profile: %w", err)
	}
	times(from, -1, 0)
	if s.whole != nil {
		times(s.whole, 1, 0)
	}
	return errors.Join(s.merge(from), s.Add(after))
}

// times multiplies what is counted and what is held. (Profile.ScaleN drops samples of which what it multiplies becomes 0.)
func times(p *profile.Profile, counted, held int64) {
	for i, of := range p.SampleType {
		by := counted
		if strings.HasPrefix(of.Type, "inuse_") {
			by = held
		}
		for _, sample := range p.Sample {
			sample.Value[i] *= by
		}
	}
}

func (s *Sum) merge(part *profile.Profile) (err error) {
	parts := []*profile.Profile{part}
	if s.whole != nil {
		parts = []*profile.Profile{s.whole, part}
	}
	s.whole, err = profile.Merge(parts)
	return err
}

// Write keeps all of it as PATH.pprof and PATH.stacks.json.gz; ErrEmpty, and no file, where there is nothing in it.
func (s *Sum) Write(path string) error {
	if s.whole == nil || len(s.whole.Sample) == 0 {
		return ErrEmpty
	}
	var packed, text bytes.Buffer
	pack := gzip.NewWriter(&text)
	err := errors.Join(s.whole.Write(&packed), json.NewEncoder(pack).Encode(stacksOf(s.whole)), pack.Close())
	return errors.Join(err, os.WriteFile(path+".pprof", packed.Bytes(), 0o644), os.WriteFile(path+".stacks.json.gz", text.Bytes(), 0o644))
}

// stacks are a profile by the names of its functions: what each stack, from the outermost in, has of each value.
type stacks struct {
	Period    int64    `json:"period"` // for how much of its own value one sample stands, on average
	Values    []string `json:"values"`
	Units     []string `json:"units"`
	Functions []string `json:"functions"`
	Stacks    []*stack `json:"stacks"`
}

type stack struct {
	Of     []int   `json:"of"` // places in functions
	Values []int64 `json:"values"`
}

func stacksOf(p *profile.Profile) *stacks {
	found := &stacks{Period: max(1, p.Period)}
	var columns []int
	for i, of := range p.SampleType {
		if slices.Contains(drawn, of.Type) {
			columns, found.Values, found.Units = append(columns, i), append(found.Values, of.Type), append(found.Units, of.Unit)
		}
	}
	places, known := map[string]int{}, map[string]*stack{}
	for _, sample := range p.Sample {
		one := &stack{Values: make([]int64, len(columns))}
		var of []string
		for _, at := range slices.Backward(sample.Location) {
			for _, name := range slices.Backward(names(at)) {
				of = append(of, name)
			}
		}
		if len(of) == 0 { // nothing on its stack has a name: once in some runs of a busy server
			of = []string{"[unknown]"}
		}
		for _, name := range of {
			place, seen := places[name]
			if !seen {
				place = len(found.Functions)
				places[name], found.Functions = place, append(found.Functions, name)
			}
			one.Of = append(one.Of, place)
		}
		if slices.ContainsFunc(one.Of, func(place int) bool { return reading.MatchString(found.Functions[place]) }) {
			continue
		}
		key := fmt.Sprint(one.Of)
		if same := known[key]; same != nil {
			one = same
		} else {
			known[key], found.Stacks = one, append(found.Stacks, one)
		}
		for i, column := range columns {
			one.Values[i] += sample.Value[column]
		}
	}
	return found
}

// names are those of the functions at a place in the code, what was inlined first.
func names(at *profile.Location) (all []string) {
	for _, line := range at.Line {
		if line.Function != nil {
			all = append(all, line.Function.Name)
		}
	}
	if len(all) == 0 && at.Mapping != nil { // the kernel's, or of a library without names
		all = []string{"[" + filepath.Base(at.Mapping.File) + "]"}
	}
	return all
}
