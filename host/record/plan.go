// Package record holds what the stages say to each other through files: the plan that is read, and the blocks, events and
// judgements that are written. Times are seconds since the epoch and durations are seconds, unless a name says otherwise.
package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PlanVersion is the only plan/experiment.json that this program reads.
const PlanVersion = 2

// Plan is plan/experiment.json, written by Python and changed by nobody; what the host has no use for is not here.
type Plan struct {
	PlanVersion int               `json:"plan_version"`
	Run         string            `json:"run"`
	Name        string            `json:"name"`
	Kind        string            `json:"kind"` // tsbs, gobench or logs
	Place       Place             `json:"place"`
	Hosts       []string          `json:"hosts"`
	Topology    Topology          `json:"topology"` // nil: all on one host
	Cells       []Cell            `json:"cells"`
	Variants    []Variant         `json:"variants"` // the baseline first
	Targets     map[string]Target `json:"targets"`
	Design      Design            `json:"design"`
	Noise       *Limits           `json:"noise"`
	Watchdog    Watchdog          `json:"watchdog"`
	Host        HostSettings      `json:"host"`
	Workload    *WorkloadPlan     `json:"workload"` // nil for Go benchmarks
	Queries     Queries           `json:"queries"`
	Duel        Duel              `json:"duel"`
	Settle      Settle            `json:"settle"`
	Mixed       *Mixed            `json:"mixed"`    // nil: none
	Capacity    *Capacity         `json:"capacity"` // nil: none
	GoBench     *GoBench          `json:"gobench"`
	Profile     []string          `json:"profile"` // kinds, of databases: cpu, heap, block
	Estimate    Estimate          `json:"estimate"`
	Duration    Duration          `json:"duration"`
	Imported    *struct{}         `json:"imported"`
}

// Topology is what each host of a block does, by its name: client, or roles of components.
type Topology map[string][]string

// Clients are the hosts that clients run on, the driver's first.
func (t Topology) Clients() (hosts []string) {
	for host, roles := range t {
		if slices.Contains(roles, "client") {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// On is the host that runs a component; empty where there is one host for all.
func (t Topology) On(role string) string {
	for host, roles := range t {
		if slices.Contains(roles, role) {
			return host
		}
	}
	return ""
}

// Cell is a setting of a sweep: what it changes, whole; nil is as in the plan. Without a sweep there is one, without a name.
type Cell struct {
	Name       string                 `json:"name"`
	Workload   *WorkloadPlan          `json:"workload"`
	Queries    *Queries               `json:"queries"`
	Duel       *Duel                  `json:"duel"`
	Settle     *Settle                `json:"settle"`
	Mixed      *Mixed                 `json:"mixed"`
	Capacity   *Capacity              `json:"capacity"`
	Components map[string][]Component `json:"components"` // of the variants that it starts otherwise
}

// In returns the plan as a cell has it.
func (p *Plan) In(cell string) *Plan {
	at := slices.IndexFunc(p.Cells, func(c Cell) bool { return c.Name == cell })
	if at < 0 {
		return p
	}
	own, c := *p, p.Cells[at]
	own.Workload, own.Mixed, own.Capacity = cmp.Or(c.Workload, p.Workload), cmp.Or(c.Mixed, p.Mixed), cmp.Or(c.Capacity, p.Capacity)
	own.Queries, own.Duel, own.Settle = *cmp.Or(c.Queries, &p.Queries), *cmp.Or(c.Duel, &p.Duel), *cmp.Or(c.Settle, &p.Settle)
	own.Variants = slices.Clone(p.Variants)
	for i := range own.Variants {
		if parts, has := c.Components[own.Variants[i].Name]; has {
			own.Variants[i].Components = parts
		}
	}
	return &own
}

// CellNames are those of all settings, in their order; one without a name where nothing is swept.
func (p *Plan) CellNames() (names []string) {
	for _, c := range p.Cells {
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		names = []string{""}
	}
	return names
}

// Place is where the blocks run: local, ssh or gcp.
type Place struct {
	Kind  string `json:"kind"`
	Price *struct {
		Hour float64 `json:"hour"`
	} `json:"price"`
}

// Variant is one of the versions that are compared; Package and Bench are of Go benchmarks.
type Variant struct {
	Name       string      `json:"name"`
	Target     string      `json:"target"`
	Components []Component `json:"components"`
	Package    string      `json:"package"`
	Bench      string      `json:"bench"`
}

// Component is one process of a variant; it starts in a directory that holds Files (name -> text).
type Component struct {
	Role     string            `json:"role"`
	Flags    []string          `json:"flags"`
	Env      map[string]string `json:"env"`
	Files    map[string]string `json:"files"`
	BuildKey string            `json:"build_key"`
}

// Target is what a database calls its counters and how its answers and its log are read; patterns are RE2.
type Target struct {
	Name          string             `json:"name"`
	DataFormat    string             `json:"data_format"`
	QueryFormat   string             `json:"query_format"`
	QueryForm     string             `json:"query_form"` // into what the format's queries are translated; empty for nothing
	Answers       string             `json:"answers"`
	Volatile      string             `json:"volatile"`     // taken out of bodies before their bytes are compared
	Trouble       string             `json:"trouble"`      // a line of the log that fails the block
	Counters      map[string]Counter `json:"counters"`     // any may be missing
	Quiet         []string           `json:"quiet"`        // settled: these are 0 ...
	BeforeMerge   []string           `json:"before_merge"` // 0 when a merge can be asked for
	Still         []string           `json:"still"`        // ... and these do not change
	Ticks         string             `json:"ticks"`        // which of its samples a tick keeps
	SamplesPerRow float64            `json:"samples_per_row"`
	WritePath     string             `json:"write_path"`  // takes lines of data by POST; empty where that is not how it is loaded
	NamePrefix    string             `json:"name_prefix"` // of a field's name in its answers
	Windows       string             `json:"windows"`     // a window is called by its end or its start
	Immutable     string             `json:"immutable"`   // paths below a component's directory that are never changed once they are written
	// QueryArguments are added to each query's path, as TSBS's own client does.
	QueryArguments string `json:"query_arguments"`
	// Queues are roles that acknowledge samples before those are stored; Ports are more of them beside a role's first, by name.
	Queues []string            `json:"queues"`
	Ports  map[string][]string `json:"ports"`
	Pprof  string              `json:"pprof"` // below which every component answers with profiles; empty where none does
}

// Counter is a sum over all samples of a name, or of several with | between them, whose labels match every pattern in full; of
// one component if Role says which.
type Counter struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Role   string            `json:"role"`
}

// Design is how many blocks there are, and when a run gives up.
type Design struct {
	Blocks          int    `json:"blocks"`
	MaxFailedBlocks int    `json:"max_failed_blocks"`
	Reload          string `json:"reload"`     // every or once
	StartFrom       string `json:"start_from"` // empty, or baseline: variants start on what the baseline has left
	Seed            int64  `json:"seed"`
}

// Watchdog is how long what does not move may stand still, in seconds; IdleS and SilentS are of Go benchmarks.
type Watchdog struct {
	HealthS      float64 `json:"health_s"`
	LoadStallS   float64 `json:"load_stall_s"`
	QueryStallS  float64 `json:"query_stall_s"`
	StopS        float64 `json:"stop_s"`
	IdleTimeoutS float64 `json:"idle_timeout_s"`
	IdleS        float64 `json:"idle_s"`
	SilentS      float64 `json:"silent_s"`
}

// HostSettings is what a run may do with the machine. CacheLimitGB is nil for no limit.
type HostSettings struct {
	Port         int      `json:"port"`
	CacheLimitGB *float64 `json:"cache_limit_gb"`
	DropCaches   bool     `json:"drop_caches"`
	Pin          Pin      `json:"pin"`
}

// Pin is host.pin: Mode auto or off, or fixed with the CPUs of both sides; apart where the client has a host of its own.
type Pin struct {
	Mode   string `json:"mode"`
	Server []int  `json:"server"`
	Client []int  `json:"client"`
	Reason string `json:"reason"` // why nothing is pinned, once that is known
}

// UnmarshalJSON reads a mode, or an object with the CPUs.
func (p *Pin) UnmarshalJSON(text []byte) error {
	*p = Pin{Mode: "fixed"}
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &p.Mode)
	}
	type plain Pin
	return json.Unmarshal(text, (*plain)(p))
}

// WorkloadPlan is the data that every block loads. Start and End are RFC 3339, Interval is as Go writes durations.
type WorkloadPlan struct {
	UseCase        string    `json:"use_case"`
	Scale          int       `json:"scale"`
	Start          time.Time `json:"start"`
	End            time.Time `json:"end"`
	Interval       string    `json:"interval"`
	IntervalS      float64   `json:"interval_s"`
	Seed           int64     `json:"seed"`
	Workers        int       `json:"workers"`
	BatchSize      int       `json:"batch_size"` // lines
	DataKind       string    `json:"data_kind"`  // regular (or empty), irregular or high-variance
	Lines          int64     `json:"lines"`
	Samples        int64     `json:"samples"`
	EstimatedBytes int64     `json:"estimated_bytes"`
	Data           []DataKey `json:"data"`
	Churn          *Churn    `json:"churn"` // nil: the same series throughout
	// Continued is as much again on the same series; nil where nothing is ingested on top of the first window.
	Continued *Continued `json:"continued"`
}

// Continued is a window of data behind the first.
type Continued struct {
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Lines   int64     `json:"lines"`
	Samples int64     `json:"samples"`
	Data    []DataKey `json:"data"`
}

// DataKey names a file of data in the cache.
type DataKey struct {
	Format string `json:"format"`
	Key    string `json:"key"`
}

// Churn is how series come and go behind the window that is loaded: so many percent of the hosts get another name every so
// often, by the clock of the data.
type Churn struct {
	Pct    float64 `json:"pct"`
	EveryS float64 `json:"every_s"`
}

// Queries are the query files, and the closed loop of the solo part. Count is nil where the warm-up finds it.
type Queries struct {
	Types    []QueryType `json:"types"`
	Windowed []QueryType `json:"windowed"` // of other windows than the first data's, called TYPE@WINDOW
	Solo     bool        `json:"solo"`
	Workers  int         `json:"workers"`
	Count    *int        `json:"count"`
	Seconds  float64     `json:"seconds"`
	MaxCount int         `json:"max_count"`
	Cache    string      `json:"cache"` // as-loaded, cold, warm or off
	// Alike: TSBS draws hosts and times in another order for each database; all are asked for the same ones.
	Alike bool `json:"alike"`
}

// QueryType is one of them; Keys are those of its file in the cache, by format, or FORMAT:FORM where it is translated. Start and
// End are nil for the window of the first data.
type QueryType struct {
	Name  string            `json:"name"`
	Seed  int64             `json:"seed"`
	Keys  map[string]string `json:"keys"`
	Start *time.Time        `json:"start"`
	End   *time.Time        `json:"end"`
	// MayBeEmpty: some of its answers may have no data, but not all.
	MayBeEmpty bool `json:"may_be_empty"`
	// WindowS is the seconds that each point of an answer stands for, 0 where that is not so.
	WindowS float64 `json:"window_s"`
	// Compared says how far the answers of another database than the baseline's are compared, by target.
	Compared map[string]struct {
		Level string `json:"level"`
	} `json:"compared"`
}

// TSBS is its name as TSBS knows it, without the window.
func (q QueryType) TSBS() string {
	name, _, _ := strings.Cut(q.Name, "@")
	return name
}

// Duel is how exchanges are counted and sent.
type Duel struct {
	Enabled         bool    `json:"enabled"`
	Seconds         float64 `json:"seconds"` // of a phase
	Least           int     `json:"least"`   // exchanges of a phase, unless they take longer than LongestS:
	LongestS        float64 `json:"longest_s"`
	Fewest          int     `json:"fewest"` // then as many as fit, but so many
	InFlight        int     `json:"in_flight"`
	Load            bool    `json:"load"`
	LoadS           float64 `json:"load_s"` // 0 for all of the data
	IdleS           float64 `json:"idle_s"`
	Counters        string  `json:"counters"` // are read for each type, or once for the duel
	MostDifferences int     `json:"most_differences"`
}

// Settle is when a database is quiet after a load.
type Settle struct {
	Mode     string  `json:"mode"` // natural or merged
	Drain    bool    `json:"drain"`
	TimeoutS float64 `json:"timeout_s"`
	Polls    int     `json:"polls"`
	PollS    float64 `json:"poll_s"`
}

// Rates is what a phase at fixed rates has in common with any other.
type Rates struct {
	Seconds     float64  `json:"seconds"`     // of a phase
	Types       []string `json:"types"`       // of queries, asked in turn
	Arrivals    string   `json:"arrivals"`    // poisson or constant
	Connections int      `json:"connections"` // for each kind of operation
	LateMS      float64  `json:"late_ms"`
	LatePct     float64  `json:"late_pct"` // of all: more started late by the client's doing, and the phase is void
}

// Mixed is lines and queries at once, at fixed rates. Data is that of a window behind the one that is loaded.
type Mixed struct {
	Rates
	Ingest    float64   `json:"ingest"`     // samples a second
	Queries   float64   `json:"queries"`    // a second
	BatchSize int       `json:"batch_size"` // lines
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Lines     int64     `json:"lines"`
	Data      []DataKey `json:"data"`
}

// Capacity is a ladder of rates of queries, ascending.
type Capacity struct {
	Rates
	Ladder     []float64 `json:"rates"`      // queries a second
	Percentile string    `json:"percentile"` // p50, p90, p99 or p999
	WithinMS   float64   `json:"within_ms"`
}

// GoBench is what is run of Go benchmarks. Count and CPU are nil where the warm-up or the machine says.
type GoBench struct {
	Seconds float64 `json:"seconds"`
	Count   *int64  `json:"count"`
	CPU     *int    `json:"cpu"`
	Rename  []struct {
		Match string `json:"match"`
		To    string `json:"to"`
		Drop  *int   `json:"drop"`
	} `json:"rename"`
	Require []Require `json:"require"`
	Pivot   *struct {
		Rows   []string `json:"rows"`
		Column string   `json:"column"`
	} `json:"pivot"`
	Profile   []string `json:"profile"`
	Alternate *bool    `json:"alternate"` // false: no row in short turns
}

// Require is what each benchmark must show above zero: a metric, or the number that a pattern finds in its output.
type Require struct {
	Metric string `json:"metric"`
	Output string `json:"output"`
}

// Estimate is what a run takes on the disk, in bytes.
type Estimate struct {
	DataBytes     int64 `json:"data_bytes"`
	QueryBytes    int64 `json:"query_bytes"`
	DatabaseBytes int64 `json:"database_bytes"`
	ResultsBytes  int64 `json:"results_bytes"`
}

// Duration is what a run is expected to take, in seconds.
type Duration struct {
	WorkloadS float64 `json:"workload_s"`
	BlockS    float64 `json:"block_s"`
}

// BlockRow is a line of plan/blocks.tsv. Kind is warmup, measured or spare.
type BlockRow struct {
	Block      int
	Cell       string
	Turn       int // its place among the blocks of its cell, from 0
	Host       string
	Kind       string
	Order      []string
	QueryTypes []string
}

// Name is the block's directory in raw/.
func (r BlockRow) Name() string { return fmt.Sprintf("%03d", r.Block) }

// Builds says where the binaries are.
type Builds struct {
	TSBSBin  string // directory of TSBS's commands
	Variants map[string]Build
}

// Build is build/VARIANT.json; Binary is that of the only or first component.
type Build struct {
	Binary     string  `json:"binary"`
	Components []Built `json:"components"`
}

// Built is the binary of one component.
type Built struct {
	Role   string `json:"role"`
	Binary string `json:"binary"`
}

// Variant returns the variant of a name; false if there is none.
func (p *Plan) Variant(name string) (Variant, bool) {
	for _, v := range p.Variants {
		if v.Name == name {
			return v, true
		}
	}
	return Variant{}, false
}

// MayBeEmpty says whether answers to a query type may have no data.
func (p *Plan) MayBeEmpty(queryType string) bool {
	return slices.ContainsFunc(p.Queries.Types, func(t QueryType) bool { return t.Name == queryType && t.MayBeEmpty })
}

// LoadPlan reads a run's plan, or says what is wrong with it.
func LoadPlan(runDir string) (*Plan, error) {
	path := filepath.Join(runDir, "plan", "experiment.json")
	plan := &Plan{}
	if err := ReadJSON(path, plan); os.IsNotExist(err) {
		return nil, UserError("%s is no run: there is no plan/experiment.json in it; 'make plan' makes one", runDir)
	} else if err != nil {
		return nil, UserError("%s cannot be read: %v; plan a new run", path, err)
	}
	if plan.PlanVersion != PlanVersion {
		return nil, UserError("%s has version %d of a plan, and this tsduel runs version %d: plan a new run", path, plan.PlanVersion, PlanVersion)
	}
	return plan, nil
}

// LoadRows reads plan/blocks.tsv, in its order: the blocks of all hosts.
func LoadRows(runDir string) ([]BlockRow, error) {
	path := filepath.Join(runDir, "plan", "blocks.tsv")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, UserError("%s cannot be read: %v", path, err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if lines[0] != "block\tcell\thost\tkind\torder\tquery_types" {
		return nil, UserError("%s has not the columns of this tsduel: plan a new run", path)
	}
	var rows []BlockRow
	turns := map[[2]string]int{}
	for i, line := range lines[1:] {
		field := strings.Split(line, "\t")
		if len(field) != 6 {
			return nil, UserError("%s: line %d has %d fields and not 6", path, i+2, len(field))
		}
		block, err := strconv.Atoi(field[0])
		if err != nil {
			return nil, UserError("%s: line %d: %q is no number of a block", path, i+2, field[0])
		}
		row := BlockRow{Block: block, Cell: field[1], Turn: turns[[2]string{field[1], field[2]}], Host: field[2], Kind: field[3], Order: strings.Split(field[4], ",")}
		turns[[2]string{row.Cell, row.Host}]++
		if field[5] != "" {
			row.QueryTypes = strings.Split(field[5], ",")
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// LoadBuilds reads build/*.json, and says which variant is not built.
func LoadBuilds(runDir string, plan *Plan) (*Builds, error) {
	builds := &Builds{Variants: map[string]Build{}}
	for _, v := range plan.Variants {
		var b Build
		err := ReadJSON(filepath.Join(runDir, "build", v.Name+".json"), &b)
		binaries := []string{b.Binary}
		for _, c := range b.Components {
			binaries = append(binaries, c.Binary)
		}
		for _, binary := range binaries {
			if info, statErr := os.Stat(binary); err == nil && (statErr != nil || info.Mode()&0o111 == 0) {
				err = fmt.Errorf("no program %s", binary)
			}
		}
		if err != nil {
			return nil, UserError("%s is not built: run 'make build RUN=%s'", v.Name, filepath.Base(runDir))
		}
		builds.Variants[v.Name] = b
	}
	if plan.Kind == "tsbs" {
		var t struct {
			BinDir string `json:"bin_dir"`
		}
		if err := ReadJSON(filepath.Join(runDir, "build", "tsbs.json"), &t); err != nil || t.BinDir == "" {
			return nil, UserError("TSBS is not built: run 'make build RUN=%s'", filepath.Base(runDir))
		}
		builds.TSBSBin = t.BinDir
	}
	return builds, nil
}

// Seconds makes a time.Duration of seconds.
func Seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// Epoch makes seconds since the epoch of a time, to the microsecond.
func Epoch(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
