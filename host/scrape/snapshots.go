package scrape

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// CacheAge is how long VictoriaMetrics repeats its answer at /metrics: an answer at the end of a phase must
// not be older than the phase. Tests set less, since their server has no cache.
var CacheAge = 1010 * time.Millisecond

// Source is a process whose counters are kept.
type Source struct {
	Role     string
	Kernel   func() (proc.Counters, error)         // the kernel's counters
	Counters func(context.Context) ([]byte, error) // its own counters, as exposition text
	Slow     bool                                  // Counters starts a program, so ticks leave it out
}

// Snapshots writes a metrics.prom.gz: the kernel's counters of the processes, then their own.
type Snapshots struct {
	Sources []Source // exchanged at a restart
	packed  *record.Packed
	keep    *regexp.Regexp
	known   map[string]bool // name -> whether keep matches it, since matching costs more than the rest of a tick
	asked   time.Time
	mutex   sync.Mutex
}

// Create makes the file. ticks is a pattern of the names that a tick keeps of the processes' own counters.
func Create(path, ticks string) (*Snapshots, error) {
	keep, err := regexp.Compile(ticks)
	if err != nil {
		return nil, fmt.Errorf("the target's ticks: %w", err)
	}
	packed, err := record.CreatePacked(path)
	if err != nil {
		return nil, err
	}
	return &Snapshots{packed: packed, keep: keep, known: map[string]bool{}}, nil
}

// Mark begins a snapshot at an edge (begin, end) of a phase with the kernel's counters. Body has to follow.
func (s *Snapshots) Mark(phase, edge, queryType string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, _ = s.packed.Write(s.head(strings.TrimSpace(fmt.Sprintf("edge %s %s %s", phase, edge, queryType))))
}

// Body ends a snapshot with the processes' own counters, and returns them; fresh ones are not cached. If a process does
// not answer there are none (nil): a sum over the others would be too small.
func (s *Snapshots) Body(ctx context.Context, fresh bool) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if fresh {
		if err := record.Sleep(ctx, time.Until(s.asked.Add(CacheAge))); err != nil {
			return nil, err
		}
	}
	body, whole := s.body(ctx, true)
	if !whole {
		body = nil
	}
	_, _ = s.packed.Write(body)
	return body, s.packed.Flush() // which has the first error of any write
}

// Edge is Mark, then Body, which is fresh at an end.
func (s *Snapshots) Edge(ctx context.Context, phase, edge, queryType string) ([]byte, error) {
	s.Mark(phase, edge, queryType)
	return s.Body(ctx, edge == "end")
}

const namesMost = 100_000

// tick writes a short snapshot, and returns what it has kept of the processes' own counters.
func (s *Snapshots) tick(ctx context.Context) (kept []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, _ = s.packed.Write(s.head("tick"))
	body, _ := s.body(ctx, false)
	for line := range bytes.Lines(body) {
		name, _ := nameOf(line)
		wanted, known := s.known[string(name)]
		if !known {
			wanted = s.keep.Match(name)
			if len(s.known) < namesMost { // a server may have new ones each second
				s.known[string(name)] = wanted
			}
		}
		if wanted {
			kept = append(kept, line...)
		}
	}
	_, _ = s.packed.Write(kept)
	return kept
}

// Ticks writes a tick every second until stop is called, and gives it to see unless that is nil.
func (s *Snapshots) Ticks(ctx context.Context, see func([]byte)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var ticking sync.WaitGroup
	ticking.Go(record.Caught(func() {
		for clock := time.Tick(time.Second); ; {
			select {
			case <-ctx.Done():
				return
			case <-clock:
				if kept := s.tick(ctx); see != nil {
					see(kept)
				}
			}
		}
	}))
	return func() { cancel(); ticking.Wait() }
}

// Close writes the rest, and returns the first error of any write.
func (s *Snapshots) Close() error { return s.packed.Close() }

func (s *Snapshots) body(ctx context.Context, slow bool) (all []byte, whole bool) {
	all, whole = []byte{}, true
	for _, source := range s.Sources {
		if source.Slow && !slow {
			continue
		}
		body, err := source.Counters(ctx)
		if err != nil {
			whole = false
			continue // others find out that a server hangs
		}
		if all = append(all, body...); len(all) > 0 && all[len(all)-1] != '\n' {
			all = append(all, '\n')
		}
	}
	s.asked = time.Now()
	return all, whole
}

func (s *Snapshots) head(title string) []byte {
	text := fmt.Appendf(nil, "%s%.6f %s\n", head, float64(time.Now().UnixNano())/1e9, title)
	for _, source := range s.Sources {
		c, err := source.Kernel()
		if err != nil {
			continue // it has ended
		}
		text = append(text, kernelSamples(source.Role, c)...)
	}
	return text
}

// kernelSamples are the samples of what the kernel has counted of a process; unknown ones are missing.
func kernelSamples(role string, c proc.Counters) (text []byte) {
	for _, sample := range []struct {
		name  string
		value float64
	}{{`cpu_seconds_total{mode="user",`, c.User.Seconds()}, {`cpu_seconds_total{mode="system",`, c.System.Seconds()},
		{"major_faults_total{", float64(c.MajorFaults)}, {"resident_memory_bytes{", float64(c.RSS)},
		{"resident_memory_peak_bytes{", float64(c.PeakRSS)}, {"io_read_bytes_total{", float64(c.Read)},
		{"io_written_bytes_total{", float64(c.Written)}, {"io_storage_read_bytes_total{", float64(c.StorageRead)},
		{"io_storage_written_bytes_total{", float64(c.StorageWritten)}} {
		if sample.value >= 0 {
			text = fmt.Appendf(text, "tsduel_process_%srole=%q} %s\n", sample.name, role,
				strconv.FormatFloat(sample.value, 'f', -1, 64))
		}
	}
	return text
}
