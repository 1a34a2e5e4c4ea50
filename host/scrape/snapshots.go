package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"tsduel/host/proc"
)

// CacheAge is how long VictoriaMetrics gives the same answer at /metrics: what it says at an end must not be older
// than the phase. Tests, whose server has none, wait less.
var CacheAge = 1050 * time.Millisecond

// Source is one process whose figures are kept. Counters are what it says itself; where that takes a program (Slow), a
// tick does without.
type Source struct {
	Role     string
	Kernel   func() (proc.Counters, error) // what the kernel has counted of it
	Counters func(context.Context) ([]byte, error)
	Slow     bool
}

// Snapshots is a metrics.prom.gz: what the kernel says of the processes, then their own /metrics.
type Snapshots struct {
	Sources []Source // those of now; a restart exchanges them
	file    *os.File
	pack    *gzip.Writer
	keep    *regexp.Regexp
	known   map[string]bool // names that were asked of keep, which costs more than the rest of a tick
	asked   time.Time
	mutex   sync.Mutex
	err     error
}

// Create makes the file; ticks is a pattern of the names that a tick keeps of /metrics.
func Create(path, ticks string) (*Snapshots, error) {
	keep, err := regexp.Compile(ticks)
	if err != nil {
		return nil, fmt.Errorf("the target's ticks: %w", err)
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	pack, _ := gzip.NewWriterLevel(file, gzip.BestSpeed)
	return &Snapshots{file: file, pack: pack, keep: keep, known: map[string]bool{}}, nil
}

// Mark begins a snapshot at the begin or end of a phase with the kernel's part, which is of this very moment. Body has
// to follow.
func (s *Snapshots) Mark(phase, edge, queryType string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.write(s.head(strings.TrimSpace(fmt.Sprintf("edge %s %s %s", phase, edge, queryType))))
}

// Body ends a snapshot with the texts of /metrics, and returns them; fresh ones are not older than the call.
func (s *Snapshots) Body(ctx context.Context, fresh bool) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if fresh {
		select {
		case <-time.After(time.Until(s.asked.Add(CacheAge))):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	body := s.bodies(ctx, true)
	s.write(body)
	return body, s.err
}

// Edge is Mark and Body at once: at an end the body is fresh.
func (s *Snapshots) Edge(ctx context.Context, phase, edge, queryType string) ([]byte, error) {
	s.Mark(phase, edge, queryType)
	return s.Body(ctx, edge == "end")
}

// tick keeps a short snapshot, and gives what it kept of /metrics.
func (s *Snapshots) tick(ctx context.Context) []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	head := s.head("tick")
	var kept []byte
	for line := range bytes.Lines(s.bodies(ctx, false)) {
		name := line[:max(0, bytes.IndexAny(line, "{ "))]
		wanted, known := s.known[string(name)]
		if !known {
			wanted = s.keep.Match(name)
			s.known[string(name)] = wanted
		}
		if wanted {
			kept = append(kept, line...)
		}
	}
	s.write(head, kept)
	return kept
}

// Ticks keeps a tick every second from now on, until stop is called; each goes to see as well, if there is one.
func (s *Snapshots) Ticks(ctx context.Context, see func([]byte)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		clock := time.NewTicker(time.Second)
		defer clock.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-clock.C:
				if kept := s.tick(ctx); see != nil {
					see(kept)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Close writes the rest; the error is the first of any write.
func (s *Snapshots) Close() error {
	for _, f := range []func() error{s.pack.Close, s.file.Sync, s.file.Close} {
		if err := f(); s.err == nil {
			s.err = err
		}
	}
	return s.err
}

func (s *Snapshots) write(parts ...[]byte) {
	for _, part := range parts {
		if _, err := s.pack.Write(part); err != nil && s.err == nil {
			s.err = err
		}
	}
}

func (s *Snapshots) bodies(ctx context.Context, slow bool) (all []byte) {
	for _, source := range s.Sources {
		if source.Slow && !slow {
			continue
		}
		body, err := source.Counters(ctx)
		if err != nil {
			continue // a server that does not answer has no figures; that it hangs is found by who waits for it
		}
		if all = append(all, body...); len(all) > 0 && all[len(all)-1] != '\n' {
			all = append(all, '\n')
		}
	}
	s.asked = time.Now()
	return all
}

func (s *Snapshots) head(what string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# snapshot %.6f %s\n", float64(time.Now().UnixNano())/1e9, what)
	for _, source := range s.Sources {
		processLines(&b, source)
	}
	return b.Bytes()
}

func processLines(b *bytes.Buffer, source Source) {
	// It may die at any moment: then the rest is missing, which is no error of ours.
	c, err := source.Kernel()
	if err != nil {
		return
	}
	line := func(name, label string, value any) {
		fmt.Fprintf(b, "tsduel_process_%s{%srole=%q} %v\n", name, label, source.Role, value)
	}
	line("cpu_seconds_total", `mode="user",`, seconds(c.User))
	line("cpu_seconds_total", `mode="system",`, seconds(c.System))
	line("major_faults_total", "", c.MajorFaults)
	line("resident_memory_bytes", "", c.RSS)
	line("resident_memory_peak_bytes", "", c.PeakRSS)
	line("io_read_bytes_total", "", c.Read)
	line("io_written_bytes_total", "", c.Written)
	line("io_storage_read_bytes_total", "", c.StorageRead)
	line("io_storage_written_bytes_total", "", c.StorageWritten)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
