package servers

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// A deployment is a variant whose servers run already. It is asked; nothing of it is started, stopped, wiped or held.
// What it uses is what its own counters say.

const (
	cpuCounter, rssCounter = "process_cpu_seconds_total", "process_resident_memory_bytes"
	startCounter           = "process_start_time_seconds"
)

// Connect finds the addresses of a deployment, and which of its processes can be known.
func (v *Variant) Connect(ctx context.Context) error {
	for _, c := range slices.Backward(v.Components) {
		at, err := url.Parse(c.URL)
		if err != nil {
			return err
		}
		s := v.server(c)
		s.address = at.Hostname()
		if strings.Contains(s.address, ":") {
			s.address = "[" + s.address + "]"
		}
		if at.User != nil { // the adapter puts it before the host of every URL
			s.address = at.User.String() + "@" + s.address
		}
		if _, err := fmt.Sscan(cmp.Or(at.Port(), "80"), &s.port); err != nil {
			return err
		}
		v.Running = slices.Insert(v.Running, 0, s)
	}
	for _, s := range v.Running {
		if err := s.findAddresses(ctx); err != nil {
			return err
		}
		at, _ := url.Parse(s.component.URL)
		if strings.Trim(at.Path, "/") != "" && s.Queries != "" { // a proxy's, or a tenant's
			s.Queries = s.component.URL
			s.Writes = s.Queries
		}
		text, unread := s.fresh(ctx)
		if unread != nil {
			v.given.Note(v.Name, "", fmt.Sprintf("what its %s uses is not known: %v", s.Role, unread))
		}
		for _, name := range []string{cpuCounter, rssCounter} {
			if value, err := ofProcess(text, name); err != nil {
				return err
			} else if value < 0 && unread == nil {
				v.given.Note(v.Name, "", fmt.Sprintf("what its %s uses is not known: %s is not in its /metrics", s.Role, name))
			}
		}
		began, err := ofProcess(text, startCounter)
		if s.began = began; ctx.Err() != nil || err != nil {
			return cmp.Or(ctx.Err(), err)
		}
	}
	if v.URL() == "" {
		return fmt.Errorf("%s/endpoints names no address for queries of %s", v.Target, v.Name)
	}
	return nil
}

// ofProcess is a counter of a process; -1 if it has none.
func ofProcess(text []byte, name string) (float64, error) {
	value, found, err := scrape.Sum(text, record.Counter{Name: name})
	if !found {
		value = -1
	}
	return value, err
}

// fresh are the counters of a deployment, not so soon after the last ones that it would repeat them.
func (s *Server) fresh(ctx context.Context) ([]byte, error) {
	if err := record.Sleep(ctx, time.Until(s.read.Add(scrape.CacheAge))); err != nil {
		return nil, err
	}
	text, err := s.counters(ctx)
	s.read = time.Now()
	return text, err
}

// ended is never the end of a deployment, which only its answers show.
func (s *Server) ended() <-chan struct{} {
	if s.Deployed() {
		return nil
	}
	return s.Process.Ended()
}

// says is what a deployment's counters say of its process; -1 is unknown.
func (s *Server) says() (c proc.Counters, err error) {
	text, _ := s.fresh(context.Background()) // without an answer nothing is known
	cpu, wrong := ofProcess(text, cpuCounter)
	rss, also := ofProcess(text, rssCounter)
	c = proc.Counters{CPU: record.Seconds(cpu), RSS: int64(rss), PeakRSS: -1, StorageRead: -1, StorageWritten: -1}
	return c, cmp.Or(wrong, also)
}

// SameStart checks that the processes of a deployment are those that it had when it was connected to.
func (all Running) SameStart(ctx context.Context) error {
	for _, s := range all {
		text, _ := s.fresh(ctx)
		began, err := ofProcess(text, startCounter)
		if err != nil || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		if s.began < 0 || began < 0 {
			continue
		}
		err = s.variant.Equal("same_process", int64(s.began), int64(began), "the %s was started again while it was asked "+
			"(%s is %.0f and was %.0f)", s.Role, startCounter, began, s.began)
		if err != nil {
			return err
		}
	}
	return nil
}

// MustBeEmpty refuses to load into a deployment that has data, or of which that is not known.
func (v *Variant) MustBeEmpty(counters []byte) error {
	const remedy = "leave out design.load: in_turn, and ask what is there"
	counter, has := v.Module.Counters["rows_kept"]
	rows, found, err := scrape.Sum(counters, counter)
	switch {
	case err != nil:
		return err
	case !has || !found:
		return record.UserError("whether %s is empty is not known (no counter of its /metrics says so), and nothing is "+
			"written to a server that may have data: %s", v.Name, remedy)
	case rows > 0:
		return record.UserError("%s has %.0f rows already, and nothing is written to a server that has data: if this run "+
			"had begun to write them, empty it and type the same command again; else %s", v.Name, rows, remedy)
	}
	return nil
}
