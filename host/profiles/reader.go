package profiles

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tsduel/host/record"
	"tsduel/host/scrape"
)

// Windows of CPU time grow from FirstWindow on, since a tenth of a second between two of them is not seen.
const FirstWindow, longestWindow = 5 * time.Second, 30 * time.Second

// Reader reads the servers' pprof endpoints while they work. It is nil in measured blocks.
type Reader struct {
	kinds   []string
	works   []string
	entries map[record.Profile]*entry // by variant, work, role and kind
}

// entry is one profile while it is read. Why ends that.
type entry struct {
	record.Profile
	sum Sum
}

// NewReader is to read these kinds of profiles of these works.
func NewReader(kinds, works []string) *Reader {
	return &Reader{kinds: kinds, works: works, entries: map[record.Profile]*entry{}}
}

// Endpoint is where the profiles of a component of a variant are: a kind's name comes behind URL.
type Endpoint struct{ Variant, Role, URL string }

// Keep writes the profiles into dir and returns a record of each planned one, in the plan's order.
func (p *Reader) Keep(variants []record.Variant, dir string, b *record.Block) (kept []record.Profile, err error) {
	for _, v := range variants {
		for _, work := range p.works {
			for _, c := range v.Components {
				for _, kind := range p.kinds {
					e := p.entry(v.Name, work, c.Role, kind)
					e.judge(b)
					if e.Why == "" {
						e.File = strings.Join([]string{v.Name, work, c.Role, kind}, ".")
						failed := e.sum.Write(filepath.Join(dir, e.File))
						if errors.Is(failed, ErrEmpty) {
							e.File, e.Why, failed = "", whyEmpty[kind], nil
						} else if errors.Is(failed, ErrNegative) {
							e.File, e.Why, failed = "", failed.Error(), nil
						}
						err = errors.Join(err, failed)
					}
					kept = append(kept, e.Profile)
				}
			}
		}
	}
	return kept, err
}

// judge says why there is no profile if the work was not done or the variant has failed in the block.
func (e *entry) judge(b *record.Block) {
	if e.Why == "" && e.Operations == 0 {
		e.Why = undone
	}
	for _, failure := range b.Failures {
		if failure.Variant == e.Variant || e.Why == undone {
			e.Why = fmt.Sprintf("%s failed in %s: %s", failure.Variant, failure.Phase, failure.Message)
		}
	}
	if e.Why == undone && b.Void != "" {
		e.Why += ": " + b.Void
	}
}

const undone = "the work was not done"

var whyEmpty = map[string]string{
	"cpu":   "it has no sample: the process used next to no CPU, which is looked at 100 times a second",
	"heap":  "it has no sample: the process allocated next to nothing, or its flags switch sampling off",
	"block": "it has no sample: this server does not record where it waits (runtime.SetBlockProfileRate)",
}

func (p *Reader) entry(variant, work, role, kind string) *entry {
	key := record.Profile{Variant: variant, Work: work, Role: role, Kind: kind}
	if p.entries[key] == nil {
		p.entries[key] = &entry{Profile: key}
	}
	return p.entries[key]
}

// Read profiles servers that will work for about so long. end stops that and says how many operations were
// done, 0 if the work was not finished. Only its first call counts.
func (p *Reader) Read(ctx context.Context, work string, expect time.Duration,
	endpoints ...Endpoint) (end func(operations int64)) {
	if p == nil || !slices.Contains(p.works, work) {
		return func(int64) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	var entries []*entry
	var reading sync.WaitGroup
	for _, of := range endpoints {
		for _, kind := range p.kinds {
			e := p.entry(of.Variant, work, of.Role, kind)
			entries = append(entries, e)
			if kind == "cpu" {
				reading.Go(record.Caught(func() { e.windows(ctx, of.URL+"profile", expect, over) }))
				continue
			}
			before := e.fetch(ctx, of.URL+kind+"?gc=1", 0)
			reading.Go(record.Caught(func() {
				<-over
				if after := e.fetch(ctx, of.URL+kind+"?gc=1", 0); e.Why == "" {
					e.blame(e.sum.Grown(before, after))
				}
			}))
		}
	}
	begin := time.Now()
	var once sync.Once
	return func(operations int64) {
		once.Do(func() {
			if operations == 0 {
				cancel()
			}
			seconds := time.Since(begin).Seconds()
			close(over)
			reading.Wait()
			cancel()
			for _, e := range entries {
				if e.Operations, e.Seconds = e.Operations+operations, e.Seconds+seconds; operations == 0 {
					e.Why = undone
				}
			}
		})
	}
}

// windows reads one window of CPU time after the other until the work is over.
func (e *entry) windows(ctx context.Context, at string, length time.Duration, over <-chan struct{}) {
	for read := time.Duration(0); ; length = min(longestWindow, read) {
		seconds := math.Ceil(length.Seconds())
		begun := time.Now()
		text := e.fetch(ctx, fmt.Sprintf("%s?seconds=%.0f", at, seconds), record.Seconds(seconds))
		if e.Why != "" {
			return
		}
		e.blame(e.sum.Add(text))
		read += record.Seconds(seconds)
		select {
		case <-over:
			return
		// A server that answers at once is not asked without end.
		case <-time.After(time.Until(begun.Add(record.Seconds(seconds)))):
		}
	}
}

// fetch reads an endpoint that takes so long for its answer, unless an earlier read has failed.
func (e *entry) fetch(ctx context.Context, at string, takes time.Duration) []byte {
	if e.Why != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takes+scrape.Timeout)
	defer cancel()
	text, err := scrape.Fetch(ctx, at)
	e.blame(err)
	return text
}

// blame keeps the first reason why there is no profile.
func (e *entry) blame(err error) {
	if err != nil && e.Why == "" {
		e.Why = "its pprof endpoint cannot be used: " + err.Error()
	}
}
