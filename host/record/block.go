package record

import (
	"fmt"
	"math"
	"slices"
)

// What a phase belongs to.
const (
	Solo   = "solo"
	InDuel = "duel"
	Bench  = "bench"
	// The further parts, each behind the duel or in its place.
	InMixed    = "mixed"
	InCapacity = "capacity"
	InUpgrade  = "upgrade"
)

// OK and Failed are what a block's status is.
const (
	OK     = "ok"
	Failed = "failed"
)

// Block is raw/BBB/block.json: all variants once.
type Block struct {
	Schema      int                   `json:"schema"`
	Block       int                   `json:"block"`
	Cell        string                `json:"cell"`
	Host        string                `json:"host"`
	Kind        string                `json:"kind"`
	Order       []string              `json:"order"`
	QueryTypes  []string              `json:"query_types"`
	Status      string                `json:"status"`
	Failures    []Failure             `json:"failures"`
	Void        string                `json:"void"` // why nothing in it may be compared
	Started     float64               `json:"started"`
	Ended       float64               `json:"ended"`
	BootID      string                `json:"boot_id"`
	Maintenance string                `json:"maintenance"`
	TimedS      float64               `json:"timed_s"`         // in load, queries and exchanges
	Noise       *Noise                `json:"noise"`           // over the whole block
	Hosts       map[string]*Noise     `json:"hosts,omitempty"` // of other hosts, where components run there
	Phases      []Phase               `json:"phases"`
	Solo        map[string]SoloRecord `json:"solo"`
	Duel        *DuelRecord           `json:"duel"`
	Upgrade     *UpgradeRecord        `json:"upgrade,omitempty"`
	Mixed       map[string]RatesPart  `json:"mixed,omitempty"`    // by variant
	Capacity    map[string]RatesPart  `json:"capacity,omitempty"` // by variant
	Checks      []Check               `json:"checks"`
	Ratios      map[string]Ratios     `json:"ratios"` // by candidate
}

// NewBlock begins the record of a row.
func NewBlock(row BlockRow) *Block {
	return &Block{Schema: 1, Block: row.Block, Cell: row.Cell, Host: row.Host, Kind: row.Kind, Order: row.Order, QueryTypes: append([]string{}, row.QueryTypes...),
		Status: OK, Failures: []Failure{}, Phases: []Phase{}, Solo: map[string]SoloRecord{}, Checks: []Check{}, Ratios: map[string]Ratios{}, Mixed: map[string]RatesPart{}, Capacity: map[string]RatesPart{}}
}

// Fail adds a failure; variant is empty where it is not one variant's doing.
func (b *Block) Fail(f Failure) {
	b.Status, b.Failures = Failed, append(b.Failures, f)
}

// Finish adds one check for each variant: it came to the block's end.
func (b *Block) Finish(variants []Variant) {
	for _, v := range variants {
		c := Check{Check: "block_finished", Variant: v.Name, Expected: 1, Actual: 1, OK: true}
		for _, f := range b.Failures {
			if f.Variant == v.Name || f.Variant == "" {
				c.Phase, c.QueryType, c.Actual, c.OK, c.Message = f.Phase, f.QueryType, 0, false, f.Message
				break
			}
		}
		if said := b.Refused(v.Name); said != "" {
			c.Phase, c.Actual, c.OK, c.Message = "start", 0, false, said
		}
		b.Checks = append(b.Checks, c)
	}
}

// Failure is why a variant, or all of them, has no result in a block.
type Failure struct {
	Variant   string `json:"variant"`
	Part      string `json:"part"`
	Phase     string `json:"phase"`
	QueryType string `json:"query_type"`
	Message   string `json:"message"`
}

// Phase is a span of a block. Count is samples, queries or exchanges; the client's CPU is in seconds.
type Phase struct {
	Variant       string  `json:"variant"` // empty in the duel
	Part          string  `json:"part"`
	Phase         string  `json:"phase"`
	QueryType     string  `json:"query_type"`
	Begin         float64 `json:"begin"`
	End           float64 `json:"end"`
	Exit          int     `json:"exit"`
	Count         int64   `json:"count"`
	Attempts      int     `json:"attempts"`
	ClientUserS   float64 `json:"client_user_s"`
	ClientSystemS float64 `json:"client_system_s"`
	Noise         *Noise  `json:"noise,omitempty"`
	// Hosts is the same of other hosts, where components run there.
	Hosts map[string]*Noise `json:"hosts,omitempty"`
}

// Check compares what was to be with what was.
type Check struct {
	Check     string  `json:"check"`
	Variant   string  `json:"variant"`
	Phase     string  `json:"phase"`
	QueryType string  `json:"query_type"`
	Expected  float64 `json:"expected"`
	Actual    float64 `json:"actual"`
	OK        bool    `json:"ok"`
	Message   string  `json:"message"`
}

// ByRole are figures of components: what of, then the role. It is nil in runs whose variants have one component each.
type ByRole map[string]map[string]int64

// SoloRecord is a variant alone on the machine. CPUNS holds load, drained and query:TYPE, in ns since the phase began.
type SoloRecord struct {
	Canary       *Canary          `json:"canary"`
	Sizes        map[string]int64 `json:"sizes"`
	SizesByRole  ByRole           `json:"sizes_by_role"` // by name of the size
	ArriveS      *float64         `json:"arrive_s"`      // from the last acknowledged sample to the last stored; nil where nothing queues
	DrainS       *float64         `json:"drain_s"`
	StartS       float64          `json:"start_s"`
	StopS        float64          `json:"stop_s"`
	Restarts     int              `json:"restarts"`
	CPUNS        map[string]int64 `json:"cpu_ns"`
	CPUNSByRole  ByRole           `json:"cpu_ns_by_role"`
	WrittenBytes int64            `json:"written_bytes"` // to storage, from the begin of the load until drained
	// Clients are those of several that loaded together, and SkewMS by how much one began before another.
	Clients []Client `json:"clients,omitempty"`
	SkewMS  float64  `json:"skew_ms,omitempty"`
}

// Canary is how long the same work takes on this machine, in seconds.
type Canary struct {
	CPUS    float64 `json:"cpu_s"`
	MemoryS float64 `json:"memory_s"`
	FsyncS  float64 `json:"fsync_s"`
}

// DuelRecord is all variants resident; maps are by variant.
type DuelRecord struct {
	Start        map[string]DuelStart          `json:"start"`
	Idle         []DuelIdle                    `json:"idle"`
	Types        []DuelType                    `json:"types"`
	Load         *DuelLoad                     `json:"load"`
	Counters     map[string]map[string]float64 `json:"counters"`  // by variant, of all query types; else they are in Types
	RSSBytes     map[string]int64              `json:"rss_bytes"` // after the duel
	RSSByRole    ByRole                        `json:"rss_by_role"`
	RSSPeakBytes map[string]int64              `json:"rss_peak_bytes"`
}

// DuelStart is with what a side began; unequal ones void the block.
type DuelStart struct {
	CachesDeleted bool    `json:"caches_deleted"`
	Restarts      int     `json:"restarts"`
	DataReadBytes int64   `json:"data_read_bytes"`
	IdleS         float64 `json:"idle_s"`
	IdleTimeout   bool    `json:"idle_timeout"`
}

// DuelIdle is what the servers do when nobody asks; When is before or after.
type DuelIdle struct {
	When    string           `json:"when"`
	Seconds float64          `json:"seconds"`
	CPUNS   map[string]int64 `json:"cpu_ns"`
}

// DuelType is the exchanges of one query type.
type DuelType struct {
	QueryType    string           `json:"query_type"`
	Exchanges    int              `json:"exchanges"`
	Compared     int              `json:"compared"`
	Differences  int              `json:"differences"`
	Empty        int              `json:"empty"`
	Errors       int              `json:"errors"`
	FirstQuery   int              `json:"first_query"` // of the file
	Seconds      float64          `json:"seconds"`
	CPUNS        map[string]int64 `json:"cpu_ns"`
	CPUNSByRole  ByRole           `json:"cpu_ns_by_role"`
	ClientCPUNS  int64            `json:"client_cpu_ns"`
	Instructions map[string]int64 `json:"instructions"` // nil where the kernel does not count them
	Stopped      string           `json:"stopped"`      // why it ended early
	// Counters are by how much those of the target grew, by variant and our name; what a server does not have is missing.
	Counters map[string]map[string]float64 `json:"counters"`
}

// DuelLoad is exchanged ingestion.
type DuelLoad struct {
	Exchanges int     `json:"exchanges"`
	Lines     int64   `json:"lines"`
	Samples   int64   `json:"samples"`
	Seconds   float64 `json:"seconds"`
	// Until all samples have arrived, where a component acknowledges them before.
	CPUNS       map[string]int64 `json:"cpu_ns"`
	CPUNSByRole ByRole           `json:"cpu_ns_by_role"`
}

// RatesPart is a variant alone at fixed rates: one phase, or one a rung of the ladder.
type RatesPart struct {
	IdleS  float64     `json:"idle_s"` // from the start until nothing was left to do
	Phases []RatePhase `json:"phases"`
}

// RatePhase is operations whose starts were fixed beforehand. Counters are by how much those of the target grew, by our name.
type RatePhase struct {
	Rate        float64            `json:"rate"` // operations a second, of a rung
	Seconds     float64            `json:"seconds"`
	Streams     []RateStream       `json:"streams"`
	CPUNS       int64              `json:"cpu_ns"` // of the servers
	ClientCPUNS int64              `json:"client_cpu_ns"`
	ClientShare float64            `json:"client_share"` // of the client's CPUs
	RSSBytes    int64              `json:"rss_bytes"`
	Counters    map[string]float64 `json:"counters"`
	Samples     int64              `json:"samples"` // sent, acknowledged and stored
	Void        string             `json:"void"`    // why it says nothing of the server, in a sentence
	Held        bool               `json:"held"`    // of a rung: all were answered within the bound, at its percentile
	// Clients are those of several, and SkewMS by how much one began before another. ClientShare is the busiest one's then.
	Clients []Client `json:"clients,omitempty"`
	SkewMS  float64  `json:"skew_ms,omitempty"`
}

// Client is one of several: when it began after the instant that was agreed on, what it used of its host's CPUs, and what it sent:
// operations and lines at a rate, samples of a load.
type Client struct {
	Host    string  `json:"host"`
	BeganMS float64 `json:"began_ms"`
	CPUNS   int64   `json:"cpu_ns"`
	CPUs    int     `json:"cpus"`
	Share   float64 `json:"share"`
	Started int     `json:"started,omitempty"`
	Lines   int64   `json:"lines,omitempty"`
	Samples int64   `json:"samples,omitempty"`
}

// RateStream is the operations of one kind in it: planned = started + unstarted, started = answered + failed. Times are in ns by
// p50, p90, p99, p999 and max: response from the intended start, service from the start, late from the intended start, or
// the moment since when a connection was free, to the start. What was never started is in the response times with what it
// had waited for.
type RateStream struct {
	Operation   string           `json:"operation"` // query or batch
	Rate        float64          `json:"rate"`      // a second, as asked
	Planned     int              `json:"planned"`
	Started     int              `json:"started"`
	Answered    int              `json:"answered"`
	Failed      int              `json:"failed"`
	Unstarted   int              `json:"unstarted"`
	Queued      int              `json:"queued"` // started late since no connection was free
	Late        int              `json:"late"`   // started late though one was
	Empty       int              `json:"empty"`
	Failure     string           `json:"failure"` // the first one
	ResponseNS  map[string]int64 `json:"response_ns"`
	ServiceNS   map[string]int64 `json:"service_ns"`
	LatenessNS  map[string]int64 `json:"lateness_ns"`
	Connections int              `json:"connections"`
}

// Ratios are logs of candidate / baseline by metric, for the forecast; without those that are not known.
type Ratios map[string]float64

// Ratio adds the log of a candidate's value to the baseline's; of two values that have none it adds nothing.
func (b *Block) Ratio(candidate, metric string, log float64) {
	if math.IsNaN(log) || math.IsInf(log, 0) {
		return
	}
	if b.Ratios[candidate] == nil {
		b.Ratios[candidate] = Ratios{}
	}
	b.Ratios[candidate][metric] = log
}

// Difference is a pair of answers that are not the same: the first of a type (raw/BBB/duel/differences.json).
type Difference struct {
	QueryType string   `json:"query_type"`
	K         int      `json:"k"`
	Query     string   `json:"query"`
	Variants  []string `json:"variants"`
	Bodies    []string `json:"bodies"` // cut at 64 KiB
	What      string   `json:"what"`
}

// Noise is what the machine did over a phase; nil where the host has no such figure.
type Noise struct {
	Seconds         float64            `json:"seconds"`
	ClockStepS      *float64           `json:"clock_step_s"`
	CPUs            int                `json:"cpus"`
	BusyS           float64            `json:"busy_s"`
	StealS          float64            `json:"steal_s"`
	IowaitS         float64            `json:"iowait_s"`
	ServerS         *float64           `json:"server_s"`
	OwnS            *float64           `json:"own_s"` // client and us
	KernelS         *float64           `json:"kernel_s"`
	ForeignS        *float64           `json:"foreign_s"`
	ContextSwitches int64              `json:"context_switches"`
	SwapPages       int64              `json:"swap_pages"`
	TemperatureC    *float64           `json:"temperature_c"`
	PressureS       map[string]float64 `json:"pressure_s"` // cpu, io, memory: somebody waited for it
}

// Limits are the plan's noise section: at a limit or beyond the block is spoilt, at a flag it is told; nil is never.
type Limits struct {
	StealPct              *float64 `json:"steal_pct"`
	ForeignCPUPct         *float64 `json:"foreign_cpu_pct"`
	CanaryPct             *float64 `json:"canary_pct"`
	ClockStepS            *float64 `json:"clock_step_s"`
	StealFlagPct          *float64 `json:"steal_flag_pct"`
	ForeignCPUFlagPct     *float64 `json:"foreign_cpu_flag_pct"`
	CanaryFlagPct         *float64 `json:"canary_flag_pct"`
	CanaryFsyncFlagPct    *float64 `json:"canary_fsync_flag_pct"`
	PressureCPUFlagPct    *float64 `json:"pressure_cpu_flag_pct"`
	PressureIOFlagPct     *float64 `json:"pressure_io_flag_pct"`
	PressureMemoryFlagPct *float64 `json:"pressure_memory_flag_pct"`
	SwapFlagPages         *float64 `json:"swap_flag_pages"`
	PoolS                 float64  `json:"pool_s"` // shorter phases are judged together
}

// NoiseReport is raw/noise.json: which blocks were spoilt from outside, and by what.
type NoiseReport struct {
	Schema  int           `json:"schema"`
	Blocks  []JudgedBlock `json:"blocks"` // without the warm-up
	Signals []Signal      `json:"signals"`
}

// What a block is worth as far as the machine goes.
const (
	Valid   = "valid"
	Invalid = "invalid"
)

// JudgedBlock is valid, invalid or failed.
type JudgedBlock struct {
	Block  int      `json:"block"`
	Kind   string   `json:"kind"`
	Causes []string `json:"causes"`
	State  string   `json:"state"`
}

// Signal is one look at the machine; Effect is ok, flag or invalid.
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

// Facts is raw/HOST.json: what a machine is, and what was taken as its CPUs.
type Facts struct {
	Host                string   `json:"host"`
	Hostname            string   `json:"hostname"`
	OS                  string   `json:"os"`
	Kernel              string   `json:"kernel"`
	Architecture        string   `json:"architecture"`
	CPUModel            string   `json:"cpu_model"`
	CPUs                int      `json:"cpus"`
	MemoryBytes         int64    `json:"memory_bytes"`
	SwapBytes           int64    `json:"swap_bytes"`
	BootID              string   `json:"boot_id"`
	Virtualization      string   `json:"virtualization"`
	Governor            string   `json:"governor"`
	TransparentHugepage string   `json:"transparent_hugepage"`
	Filesystem          string   `json:"filesystem"`
	DiskFreeBytes       int64    `json:"disk_free_bytes"`
	Pin                 Pin      `json:"pin"`
	Instructions        bool     `json:"instructions"`
	InstructionsWhy     string   `json:"instructions_why"`
	Cgroup              string   `json:"cgroup"` // none, v1 or v2
	CPULimit            *float64 `json:"cpu_limit"`
	// Link is how the client's host reaches this one; nil of the client's own.
	Link *Link `json:"link,omitempty"`
}

// Link is a way between hosts: how long an answer takes at best, and by how much the clock there is ahead of the client's.
type Link struct {
	Address      string  `json:"address"`
	RoundTripMS  float64 `json:"round_trip_ms"`
	ClockAheadMS float64 `json:"clock_ahead_ms"`
}

// Workload is raw/workload.json: the very files of a run.
type Workload struct {
	Data      []DataFile  `json:"data"`
	Groups    []DataFile  `json:"groups,omitempty"` // of several clients, each one's part of the data, which it loads
	Queries   []QueryFile `json:"queries"`
	Mixed     []DataFile  `json:"mixed,omitempty"`     // behind the window that is loaded
	Continued []DataFile  `json:"continued,omitempty"` // the same, of as much again on top
}

// DataFile is what is loaded. FeedPath is what the loader reads: the data unpacked where that is small, else Path.
type DataFile struct {
	Host            string   `json:"host,omitempty"`  // of a group: that of its client
	Cells           []string `json:"cells,omitempty"` // of a sweep, those that load it
	Format          string   `json:"format"`
	Path            string   `json:"path"` // zstd
	FeedPath        string   `json:"feed_path"`
	SHA256          string   `json:"sha256"`
	ContentChecksum string   `json:"content_checksum"` // 32 bits of XXH64 of the content, as zstd has them
	Bytes           int64    `json:"bytes"`
	Lines           int64    `json:"lines"`
	Samples         int64    `json:"samples"`
}

// QueryFile is a gob stream of TSBS's queries, translated into a form where that has a name.
type QueryFile struct {
	Cells  []string `json:"cells,omitempty"` // of a sweep, those that ask it
	Format string   `json:"format"`
	Form   string   `json:"form,omitempty"`
	Type   string   `json:"type"`
	Path   string   `json:"path"`
	SHA256 string   `json:"sha256"`
	Bytes  int64    `json:"bytes"`
	Count  int      `json:"count"`
}

// In returns the files of a cell.
func (w *Workload) In(cell string) *Workload {
	if w == nil {
		return nil
	}
	not := func(cells []string) bool { return len(cells) > 0 && !slices.Contains(cells, cell) }
	data := func(files []DataFile) []DataFile {
		return slices.DeleteFunc(slices.Clone(files), func(f DataFile) bool { return not(f.Cells) })
	}
	return &Workload{Data: data(w.Data), Groups: data(w.Groups), Mixed: data(w.Mixed), Continued: data(w.Continued), Queries: slices.DeleteFunc(slices.Clone(w.Queries), func(f QueryFile) bool { return not(f.Cells) })}
}

// DataFor returns the data in a format.
func (w *Workload) DataFor(format string) (DataFile, bool) { return ofFormat(w.Data, format) }

// GroupsFor returns the groups of all clients in a format; none where there is one client.
func (w *Workload) GroupsFor(format string) (groups []DataFile) {
	for _, g := range w.Groups {
		if g.Format == format {
			groups = append(groups, g)
		}
	}
	return groups
}

// ContinuedFor returns what follows it.
func (w *Workload) ContinuedFor(format string) (DataFile, bool) {
	return ofFormat(w.Continued, format)
}

func ofFormat(files []DataFile, format string) (DataFile, bool) {
	for _, d := range files {
		if d.Format == format {
			return d, true
		}
	}
	return DataFile{}, false
}

// MixedFor returns the data behind the window that is loaded, in a format.
func (w *Workload) MixedFor(format string) (DataFile, bool) {
	return (&Workload{Data: w.Mixed}).DataFor(format)
}

// QueriesFor returns the queries of a type as a target is asked them; the error says that there are none.
func (w *Workload) QueriesFor(target Target, queryType string) (QueryFile, error) {
	for _, q := range w.Queries {
		if q.Format == target.QueryFormat && q.Form == target.QueryForm && q.Type == queryType {
			return q, nil
		}
	}
	return QueryFile{}, fmt.Errorf("raw/workload.json has no queries of %s in format %q, form %q", queryType, target.QueryFormat, target.QueryForm)
}

// Calibration is raw/calibration.json, made once after the warm-up: operations a block, by query type; Rows, Columns and CPU are
// of Go benchmarks.
type Calibration struct {
	Cells      map[string]*Calibration `json:"cells,omitempty"`       // of a sweep, where there is nothing else in it
	Counts     map[string]int          `json:"counts,omitempty"`      // exchanges
	SoloCounts map[string]int          `json:"solo_counts,omitempty"` // queries of the closed loop
	CPU        int                     `json:"cpu,omitempty"`
	Columns    []string                `json:"columns,omitempty"`
	Rows       []CalibrationRow        `json:"rows,omitempty"`
}

// In returns that of a cell; nil where there is none.
func (c *Calibration) In(cell string) *Calibration {
	if c != nil && c.Cells[cell] != nil {
		return c.Cells[cell]
	}
	return c
}

// CalibrationRow is a benchmark that is compared: its name in each variant, and its operations.
type CalibrationRow struct {
	Row   string            `json:"row"`
	Count int64             `json:"count"`
	Names map[string]string `json:"names"`
	Cell  *TableCell        `json:"cell,omitempty"`
	// In so many short turns, B C C B, of Count operations each; 1: once a variant.
	Parts  int     `json:"parts"`
	SetupS float64 `json:"setup_s"` // of a process, beside its timed work; 0 where the warm-up did not look
}

// TableCell is where a pivoted benchmark stands.
type TableCell struct {
	Row    string `json:"row"`
	Column string `json:"column"`
}

// Profiles is raw/profiles/profiles.json.
type Profiles struct {
	Schema   int       `json:"schema"`
	Profiles []Profile `json:"profiles"`
}

// Profile is one of a run: of a variant's component while it did a work (load, ingestion, queries; empty for
// Go benchmarks). Operations are samples or exchanges, 0 where they are not one kind; Seconds are those of the work. File is its name
// without .pprof and .stacks.json.gz, empty where Why says why there is none.
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
