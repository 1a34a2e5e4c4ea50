package record

import (
	"fmt"
	"slices"
)

// BlockSchema is the only schema of block.json that this program reads.
const BlockSchema = 1

// The files of raw/ beside the blocks.

// NoiseReport is raw/HOST/noise.json: which blocks were spoilt from outside, and why.
type NoiseReport struct {
	Schema  int           `json:"schema"`
	Blocks  []JudgedBlock `json:"blocks"` // without the warm-up
	Signals []Signal      `json:"signals"`
}

// The state of a block that has not failed: Invalid is spoilt from outside.
const (
	Valid   = "valid"
	Invalid = "invalid"
)

type JudgedBlock struct {
	Block  int      `json:"block"`
	Kind   string   `json:"kind"`
	Causes []string `json:"causes"`
	State  string   `json:"state"`
}

// Signal is one figure of the machine with its limit; Effect is ok, flag or invalid.
type Signal struct {
	Block     int      `json:"block"`
	Variant   string   `json:"variant"`
	Phase     string   `json:"phase"`
	QueryType string   `json:"query_type"`
	Signal    string   `json:"signal"`
	Value     float64  `json:"value"`
	Unit      string   `json:"unit"`
	Limit     *float64 `json:"limit"`
	Effect    string   `json:"effect"`
	Message   string   `json:"message"`
}

// Facts is raw/HOST.json: what a machine is, and which of its CPUs are used for what.
type Facts struct {
	Host                string `json:"host"`
	Hostname            string `json:"hostname"`
	OS                  string `json:"os"`
	Kernel              string `json:"kernel"`
	Architecture        string `json:"architecture"`
	CPUModel            string `json:"cpu_model"`
	CPUs                int    `json:"cpus"`
	MemoryBytes         int64  `json:"memory_bytes"`
	SwapBytes           int64  `json:"swap_bytes"`
	BootID              string `json:"boot_id"`
	Virtualization      string `json:"virtualization"`
	Governor            string `json:"governor"`
	TransparentHugepage string `json:"transparent_hugepage"`
	// Sysctls are the kernel's settings that decide how a database runs, by name: Google's guest agent sets some.
	Sysctls         map[string]string `json:"sysctls"`
	Filesystem      string            `json:"filesystem"`
	DiskFreeBytes   int64             `json:"disk_free_bytes"`
	Pin             Pin               `json:"pin"`
	Instructions    bool              `json:"instructions"`
	InstructionsWhy string            `json:"instructions_why"`
	Cgroup          string            `json:"cgroup"` // none, v1 or v2
	CPULimit        *float64          `json:"cpu_limit"`
	// Environment is the part of the driver's environment that all processes here get.
	Environment map[string]string `json:"environment"`
}

// Workload is raw/HOST/workload.json: the files of data and queries of a run.
type Workload struct {
	Data      []DataFile  `json:"data"`
	Queries   []QueryFile `json:"queries"`
	Mixed     []DataFile  `json:"mixed,omitempty"`     // of the window after the loaded one
	Continued []DataFile  `json:"continued,omitempty"` // the same, as much as was loaded
	Alone     []DataFile  `json:"alone,omitempty"`     // the large load of the warm-up block
}

// DataFile is data to load. FeedPath is what the loader reads: small data unpacked, else Path.
type DataFile struct {
	Format          string `json:"format"`
	Path            string `json:"path"` // zstd
	FeedPath        string `json:"feed_path"`
	SHA256          string `json:"sha256"`
	ContentChecksum string `json:"content_checksum"` // 32 bits of XXH64 of the content, as zstd has them
	Bytes           int64  `json:"bytes"`
	Lines           int64  `json:"lines"`
	Samples         int64  `json:"samples"`
}

// QueryFile is a gob stream of TSBS's queries, translated into Form if that is not empty.
type QueryFile struct {
	Format string `json:"format"`
	Form   string `json:"form,omitempty"`
	Type   string `json:"type"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Count  int    `json:"count"`
}

func (w *Workload) DataFor(format string) (DataFile, bool) {
	files := OfFormat(w.Data, format)
	return append(files, DataFile{})[0], len(files) > 0
}

func OfFormat(files []DataFile, format string) []DataFile {
	return slices.DeleteFunc(slices.Clone(files), func(f DataFile) bool { return f.Format != format })
}

// QueriesFor returns the queries of a type in the format and form of a target.
func (w *Workload) QueriesFor(target Target, queryType string) (QueryFile, error) {
	for _, q := range w.Queries {
		if q.Format == target.QueryFormat && q.Form == target.QueryForm && q.Type == queryType {
			return q, nil
		}
	}
	return QueryFile{}, fmt.Errorf("raw/workload.json has no queries of %s in format %q, form %q",
		queryType, target.QueryFormat, target.QueryForm)
}

// Calibration is raw/HOST/calibration.json, written once after the warm-up: the operations of a block, by
// query type; Rows, Columns and CPU are of Go benchmarks.
type Calibration struct {
	Counts     map[string]int `json:"counts,omitempty"`      // exchanges
	SoloCounts map[string]int `json:"solo_counts,omitempty"` // queries of the closed loop
	CPU        int            `json:"cpu,omitempty"`
	// What reading the counters once costs, by variant and our name.
	Reading map[string]map[string]float64 `json:"reading,omitempty"`
	Columns []string                      `json:"columns,omitempty"`
	Rows    []CalibrationRow              `json:"rows,omitempty"`
}

// CalibrationRow is a compared benchmark: its name in each variant, and its operations.
type CalibrationRow struct {
	Row   string            `json:"row"`
	Count int64             `json:"count"`
	Names map[string]string `json:"names"`
	Cell  *TableCell        `json:"cell,omitempty"`
	// Number of short turns, B C C B, of Count operations each; 1: one turn for each variant.
	Parts  int     `json:"parts"`
	SetupS float64 `json:"setup_s"` // of a process, beside its timed work; 0 if the warm-up did not measure it
}

type TableCell struct {
	Row    string `json:"row"`
	Column string `json:"column"`
}

type Profiles struct {
	Schema   int       `json:"schema"`
	Profiles []Profile `json:"profiles"`
}

// Profile is a profile of a variant's component during its work (load, ingestion, queries; empty for Go
// benchmarks). Operations are samples or exchanges, 0 if they are of several kinds; Seconds are those of the
// work. File is the name without .pprof and .stacks.json.gz, empty if there is no profile, and Why says why.
type Profile struct {
	Variant    string  `json:"variant"`
	Work       string  `json:"work"`
	Role       string  `json:"role"`
	Kind       string  `json:"kind"`
	File       string  `json:"file"`
	Operations int64   `json:"operations"`
	Seconds    float64 `json:"seconds"`
	Why        string  `json:"why"`
}
