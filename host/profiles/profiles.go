// Package profiles adds up profiles of one program. It writes the sum as pprof's own file, and as stacks of
// function names, which plots/ draws without pprof's library.
package profiles

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"tsduel/host/bound"
)

var (
	ErrEmpty    = errors.New("it has no sample")
	ErrNegative = errors.New("it has samples of less than nothing, as no profile has")
)

// deepest are the functions of a stack that are kept, the innermost: Go itself writes at most 128 frames, and with each
// those that are inlined there.
const deepest = 500

// drawn are the values in stacks: ns of CPU, bytes allocated, bytes in use, ns of waiting.
var drawn = []string{"cpu", "alloc_space", "inuse_space", "delay"}

// reading matches the functions that make a profile. Stacks leave them out.
var reading = regexp.MustCompile(`^(runtime|net/http)/pprof\.`)

type Sum struct{ whole *profile.Profile }

func (s *Sum) Add(text []byte) error {
	part, err := parse(text)
	if err != nil {
		return err
	}
	return s.merge(part)
}

// parse reads a profile, packed or not. Unlike profile.ParseData it unpacks no more than a profile can have.
func parse(text []byte) (*profile.Profile, error) {
	var from io.Reader = bytes.NewReader(text)
	unpack, err := gzip.NewReader(from)
	if err == nil {
		text, err = bound.Read(unpack, bound.Profile, "a profile")
	} else if errors.Is(err, gzip.ErrHeader) { // it is not packed
		text, err = bound.Read(bytes.NewReader(text), bound.Profile, "a profile")
	}
	var whole *profile.Profile
	if err == nil {
		whole, err = profile.ParseUncompressed(text)
	}
	if err != nil {
		err = fmt.Errorf("it is no profile: %w", err)
	}
	return whole, err
}

const stacksMost = 1 << 20

func (s *Sum) merge(part *profile.Profile) (err error) {
	parts := []*profile.Profile{part}
	if s.whole != nil {
		parts = []*profile.Profile{s.whole, part}
	}
	s.whole, err = profile.Merge(parts)
	if err == nil && len(s.whole.Sample) > stacksMost {
		return bound.Theirs("profiles with more than 1048576 stacks, and tsduel adds up no more")
	}
	return err
}

// Grown adds the difference of two profiles whose values count from the start of a program. Memory in use is
// not added: the sum has that of the last profile.
func (s *Sum) Grown(before, after []byte) error {
	from, err := parse(before)
	if err != nil {
		return err
	}
	scale(from, -1)
	if s.whole != nil {
		scale(s.whole, 1)
	}
	return errors.Join(s.merge(from), s.Add(after))
}

// scale multiplies counts by a factor, and memory in use by 0. (Profile.ScaleN would drop samples of 0.)
func scale(p *profile.Profile, factor int64) {
	for i, value := range p.SampleType {
		for _, sample := range p.Sample {
			if strings.HasPrefix(value.Type, "inuse_") {
				sample.Value[i] = 0
			}
			sample.Value[i] *= factor
		}
	}
}

// Write writes PATH.pprof and PATH.stacks.json.gz. An empty sum is ErrEmpty, a value below 0 ErrNegative, and they
// write no file.
func (s *Sum) Write(path string) error {
	if s.whole == nil || len(s.whole.Sample) == 0 {
		return ErrEmpty
	}
	drawn := stacksOf(s.whole)
	for _, stack := range drawn.Stacks {
		if slices.Min(append(stack.Values, 0)) < 0 {
			return ErrNegative
		}
	}
	var packed, text bytes.Buffer
	pack := gzip.NewWriter(&text)
	return errors.Join(s.whole.Write(&packed), json.NewEncoder(pack).Encode(drawn), pack.Close(),
		os.WriteFile(path+".pprof", packed.Bytes(), 0o644), os.WriteFile(path+".stacks.json.gz", text.Bytes(), 0o644))
}

type stacks struct {
	Period    int64    `json:"period"` // what one sample stands for on average, in the unit of its value
	Values    []string `json:"values"`
	Units     []string `json:"units"`
	Functions []string `json:"functions"`
	Stacks    []*stack `json:"stacks"`
}

type stack struct {
	Of     []int   `json:"of"` // indices in functions, the outermost first
	Values []int64 `json:"values"`
}

func stacksOf(p *profile.Profile) *stacks {
	all := &stacks{Period: max(1, p.Period)}
	var columns []int
	for i, value := range p.SampleType {
		if slices.Contains(drawn, value.Type) {
			columns = append(columns, i)
			all.Values, all.Units = append(all.Values, value.Type), append(all.Units, value.Unit)
		}
	}
	indices, known := map[string]int{}, map[string]*stack{}
	for _, sample := range p.Sample {
		names := namesOf(sample)
		s := &stack{Values: make([]int64, len(columns))}
		for _, name := range names {
			index, seen := indices[name]
			if !seen {
				index = len(all.Functions)
				indices[name], all.Functions = index, append(all.Functions, name)
			}
			s.Of = append(s.Of, index)
		}
		if slices.ContainsFunc(names, reading.MatchString) {
			continue
		}
		key := fmt.Sprint(s.Of)
		if known[key] == nil {
			known[key], all.Stacks = s, append(all.Stacks, s)
		}
		for i, column := range columns {
			known[key].Values[i] += sample.Value[column]
		}
	}
	return all
}

// namesOf returns the functions of a sample's stack, the outermost first.
func namesOf(sample *profile.Sample) (names []string) {
	for _, at := range sample.Location {
		before := len(names)
		for _, line := range at.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
		if len(names) == before && at.Mapping != nil { // the kernel's, or of a library without names
			names = append(names, "["+filepath.Base(at.Mapping.File)+"]")
		}
	}
	if len(names) == 0 { // it happens in some runs of a busy server
		names = []string{"[unknown]"}
	}
	names = names[:min(len(names), deepest)]
	slices.Reverse(names)
	return names
}
