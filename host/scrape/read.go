package scrape

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"tsduel/host/record"
)

// Snapshot has the sums of the wanted counters by our names. Phase and Edge (begin, end) are empty for a tick.
type Snapshot struct {
	Epoch                float64
	Phase, Edge, Subject string
	Values               map[string]float64
}

// Kernel are the counters that we read from the kernel, the same for every database; sums over a variant's components.
var Kernel = map[string]record.Counter{
	"cpu_user":        {Name: "tsduel_process_cpu_seconds_total", Labels: map[string]string{"mode": "user"}},
	"cpu_system":      {Name: "tsduel_process_cpu_seconds_total", Labels: map[string]string{"mode": "system"}},
	"rss":             {Name: "tsduel_process_resident_memory_bytes"},
	"rss_peak":        {Name: "tsduel_process_resident_memory_peak_bytes"},
	"major_faults":    {Name: "tsduel_process_major_faults_total"},
	"io_read":         {Name: "tsduel_process_io_read_bytes_total"},
	"io_written":      {Name: "tsduel_process_io_written_bytes_total"},
	"storage_read":    {Name: "tsduel_process_io_storage_read_bytes_total"},
	"storage_written": {Name: "tsduel_process_io_storage_written_bytes_total"},
}

// OfComponent is a counter of Kernel of one component.
func OfComponent(counter record.Counter, role string) record.Counter {
	labels := map[string]string{"role": regexp.QuoteMeta(role)}
	for label, pattern := range counter.Labels {
		labels[label] = pattern
	}
	return record.Counter{Name: counter.Name, Labels: labels}
}

// lineMost is how long a line of /metrics may be. Those of VictoriaMetrics have 200 bytes.
const lineMost = 1 << 20

// Read reads a metrics.prom.gz. Names differ between versions: a missing one is no error.
func Read(path string, wanted map[string]record.Counter) (all []Snapshot, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	owners, bodies := map[string][]string{}, map[string][]byte{}
	for counter, of := range wanted {
		for name := range strings.SplitSeq(of.Name, "|") {
			owners[name] = append(owners[name], counter)
		}
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, lineMost)
	end := func() error {
		for name, body := range bodies {
			if len(all) == 0 { // before the first head
				break
			}
			at := &all[len(all)-1]
			// A failed scrape cuts a line of a tick short: this tick lacks the counter.
			if value, found, err := Sum(body, wanted[name]); err != nil && at.Phase != "" {
				return fmt.Errorf("reading %s: %w", path, err)
			} else if found {
				at.Values[name] = value
			}
		}
		clear(bodies)
		return nil
	}
	for lines.Scan() {
		title, begins := bytes.CutPrefix(lines.Bytes(), []byte(head))
		if !begins {
			name, _ := nameOf(lines.Bytes())
			for _, counter := range owners[string(name)] {
				bodies[counter] = append(append(bodies[counter], lines.Bytes()...), '\n')
			}
			continue
		}
		if err := end(); err != nil {
			return nil, err
		}
		words := append(strings.Fields(string(title)), "", "", "", "")
		at := Snapshot{Values: map[string]float64{}}
		if at.Epoch, err = strconv.ParseFloat(words[0], 64); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if words[1] == "edge" {
			at.Phase, at.Edge, at.Subject = words[2], words[3], words[4]
		}
		all = append(all, at)
	}
	return all, cmp.Or(lines.Err(), end())
}

// Growth is how much a counter has grown between two snapshots. VictoriaMetrics leaves some out until they first
// change: one that only the later snapshot has counts from 0, but not if /metrics was not read in the earlier one.
func Growth(begin, end *Snapshot, counter string) (growth float64, known bool) {
	if begin == nil || end == nil {
		return 0, false
	}
	after, known := end.Values[counter]
	before, has := begin.Values[counter]
	return after - before, known && (has || begin.read())
}

// read says whether a snapshot has more than the kernel's counters.
func (s *Snapshot) read() bool {
	for name := range s.Values {
		own, _, _ := strings.Cut(name, "@")
		if _, kernel := Kernel[own]; !kernel {
			return true
		}
	}
	return false
}
