package record

import "math"

// TakenOff is among a phase's counters the share of its objects that reading them, and background, take.
const TakenOff = "taken_off"

// InTurn is the design.load of which all data go to each variant in batches, one side at a time.
const InTurn = "in_turn"

// The parts of a block; Bench is of Go benchmarks.
const (
	Solo       = "solo"
	InDuel     = "duel"
	Bench      = "bench"
	InMixed    = "mixed"
	InCapacity = "capacity"
	InUpgrade  = "upgrade"
)

const (
	OK     = "ok"
	Failed = "failed"
)

// Block is raw/HOST/BBB/block.json: all variants once.
type Block struct {
	Schema   int    `json:"schema"`
	Block    int    `json:"block"`
	Host     string `json:"host"`
	Kind     string `json:"kind"`
	Replaces int    `json:"replaces,omitempty"` // for a spare block: the spoilt block
	Coins
	QueryTypes  []string              `json:"query_types"`
	Status      string                `json:"status"`
	Failures    []Failure             `json:"failures"`
	Void        string                `json:"void"` // why nothing in it may be compared
	Started     float64               `json:"started"`
	Ended       float64               `json:"ended"`
	BootID      string                `json:"boot_id"`
	Method      Method                `json:"method"`
	Maintenance string                `json:"maintenance"`
	TimedS      float64               `json:"timed_s"` // in load, queries and exchanges
	Noise       *Noise                `json:"noise"`   // over the whole block
	Phases      []Phase               `json:"phases"`
	Solo        map[string]SoloRecord `json:"solo"`
	Duel        *DuelRecord           `json:"duel"`
	Upgrade     *UpgradeRecord        `json:"upgrade,omitempty"`
	Mixed       map[string]RatesPart  `json:"mixed,omitempty"`    // by variant
	Capacity    map[string]RatesPart  `json:"capacity,omitempty"` // by variant
	Checks      []Check               `json:"checks"`
	Ratios      map[string]Ratios     `json:"ratios"` // by candidate
}

func NewBlock(row BlockRow) *Block {
	return &Block{Schema: BlockSchema, Block: row.Block, Host: row.Host, Kind: row.Kind,
		Replaces: row.Replaces, Coins: row.Coins, QueryTypes: append([]string{}, row.QueryTypes...), Status: OK,
		Failures: []Failure{}, Phases: []Phase{}, Checks: []Check{}, Ratios: map[string]Ratios{},
		Solo: map[string]SoloRecord{}, Mixed: map[string]RatesPart{}, Capacity: map[string]RatesPart{}}
}

// Fail adds a failure; its variant is empty if no single variant is to blame.
func (b *Block) Fail(f Failure) {
	b.Status, b.Failures = Failed, append(b.Failures, f)
}

// Finish adds one check for each variant: it finished the block.
func (b *Block) Finish(variants []Variant) {
	for _, v := range variants {
		c := Check{Check: "block_finished", Variant: v.Name, Expected: 1, Actual: 1, OK: true}
		for _, f := range b.Failures {
			if f.Variant == v.Name || f.Variant == "" {
				c.Phase, c.QueryType, c.Actual, c.OK, c.Message = f.Phase, f.QueryType, 0, false, f.Message
				break
			}
		}
		if why := b.Refused(v.Name); why != "" {
			c.Phase, c.Actual, c.OK, c.Message = "start", 0, false, why
		}
		b.Checks = append(b.Checks, c)
	}
}

// Refused says why a variant did not start on the baseline's data; "" if it did, or did not have to.
func (b *Block) Refused(variant string) string {
	if b == nil || b.Upgrade == nil {
		return ""
	}
	return b.Upgrade.Start[variant].Refused
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
}

// Check compares an expected figure with the actual one.
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

// ByRole are figures of components, by subject, then by role; nil if each variant has one component.
type ByRole map[string]map[string]int64

// SoloRecord is a variant alone. CPUNS has load, drained and query:TYPE, from the begin of the phase.
type SoloRecord struct {
	Canary       *Canary          `json:"canary"`
	Sizes        map[string]int64 `json:"sizes"`
	SizesByRole  ByRole           `json:"sizes_by_role"` // by name of the size
	ArriveS      *float64         `json:"arrive_s"`      // from the last acknowledged to the last stored; nil: no queue
	DrainS       *float64         `json:"drain_s"`
	StartS       float64          `json:"start_s"`
	StopS        float64          `json:"stop_s"`
	Restarts     int              `json:"restarts"`
	CPUNS        map[string]int64 `json:"cpu_ns"`
	CPUNSByRole  ByRole           `json:"cpu_ns_by_role"`
	WrittenBytes int64            `json:"written_bytes"` // to storage, from the load until drained; -1: unknown
}

// Canary is how long a fixed piece of work takes on this machine, in seconds.
type Canary struct {
	CPUS    float64 `json:"cpu_s"`
	MemoryS float64 `json:"memory_s"`
	FsyncS  float64 `json:"fsync_s"`
}

// DuelRecord is a duel; maps are by variant.
type DuelRecord struct {
	Sittings      int                           `json:"sittings"`
	HeldBy        string                        `json:"held_by"` // how variants stand still while others are asked
	Unheld        string                        `json:"unheld"`  // why they do not
	Start         map[string]DuelStart          `json:"start"`
	Places        []DuelPlace                   `json:"places"`
	Idle          []DuelIdle                    `json:"idle"`
	Types         []DuelType                    `json:"types"`    // for each sitting
	Load          []DuelLoad                    `json:"load"`     // for each sitting
	Counters      map[string]map[string]float64 `json:"counters"` // by variant, of all query types; else they are in Types
	ObjectsByRole ByRole                        `json:"objects_by_role"`
	Reading       map[string]map[string]float64 `json:"reading,omitempty"` // what reading the counters once costs
	RSSBytes      map[string]int64              `json:"rss_bytes"`         // after the duel
	RSSByRole     ByRole                        `json:"rss_by_role"`
	RSSPeakBytes  map[string]int64              `json:"rss_peak_bytes"`
	GoCPUs        map[string]float64            `json:"go_cpus,omitempty"` // that a limited Go program sees
}

// DuelStart is the state in which a side began; unequal states void the block.
type DuelStart struct {
	CachesDeleted bool    `json:"caches_deleted"`
	Restarts      int     `json:"restarts"`
	DataReadBytes int64   `json:"data_read_bytes"`
	IdleS         float64 `json:"idle_s"`
	IdleTimeout   bool    `json:"idle_timeout"`
}

// DuelPlace is where a component is in memory after the start of a sitting.
type DuelPlace struct {
	Sitting int    `json:"sitting"`
	Loading bool   `json:"loading"`
	Variant string `json:"variant"`
	Role    string `json:"role"`
	Placed
}

// Placed is where the pages of a process are; -1 is unknown.
type Placed struct {
	Frames int `json:"frames"` // runs of adjacent page frames of the executable
	Pages  int `json:"pages"`  // of the executable that are mapped
}

// DuelIdle is the servers' CPU without queries; When is before or after.
type DuelIdle struct {
	When    string           `json:"when"`
	Seconds float64          `json:"seconds"`
	CPUNS   map[string]int64 `json:"cpu_ns"`
}

// DuelType is the exchanges of one query type in one sitting.
type DuelType struct {
	QueryType    string           `json:"query_type"`
	Sitting      int              `json:"sitting"`
	Exchanges    int              `json:"exchanges"`
	Compared     int              `json:"compared"`
	Differences  int              `json:"differences"`
	Empty        int              `json:"empty"`
	Errors       int              `json:"errors"`
	FirstQuery   int              `json:"first_query"` // of the file
	Series       int              `json:"series"`      // of the first answer with data
	Points       int              `json:"points"`      // of the same answer
	Seconds      float64          `json:"seconds"`
	Turns        int              `json:"turns"`  // changes of who runs
	TurnS        float64          `json:"turn_s"` // of all of them, within the seconds
	CPUNS        map[string]int64 `json:"cpu_ns"`
	CPUNSByRole  ByRole           `json:"cpu_ns_by_role"`
	ClientCPUNS  int64            `json:"client_cpu_ns"`
	Instructions map[string]int64 `json:"instructions"` // nil if the kernel does not count them
	Stopped      string           `json:"stopped"`      // why it ended early
	// Growth of the target's counters, by variant and our name; what a server does not have is missing.
	Counters map[string]map[string]float64 `json:"counters"`
}

// DuelLoad is exchanged ingestion in one sitting. CPU is until the last acknowledgement. Drained CPU, and CPU
// by role, is until nothing was left to do and the graceful stop was over.
type DuelLoad struct {
	Sitting      int              `json:"sitting"`
	Exchanges    int              `json:"exchanges"`
	Lines        int64            `json:"lines"`
	Samples      int64            `json:"samples"`
	Seconds      float64          `json:"seconds"`
	Turns        int              `json:"turns"`
	TurnS        float64          `json:"turn_s"`
	DrainS       float64          `json:"drain_s"`
	CPUNS        map[string]int64 `json:"cpu_ns"`
	DrainedCPUNS map[string]int64 `json:"drained_cpu_ns"`
	RSSPeakBytes map[string]int64 `json:"rss_peak_bytes"`
	CPUNSByRole  ByRole           `json:"cpu_ns_by_role"`
	// Growth of the target's counters until drained, by variant and our name.
	Counters map[string]map[string]float64 `json:"counters"`
}

// UpgradeRecord is what variants did on copies of the baseline's data; maps are by variant.
type UpgradeRecord struct {
	Copies    map[string]CopyRecord       `json:"copies"`
	Start     map[string]UpgradeStart     `json:"start"`
	Before    *DuelRecord                 `json:"before"` // on these data
	Ingest    map[string]SoloRecord       `json:"ingest"` // of as much again on top
	After     *DuelRecord                 `json:"after"`
	Sizes     map[string]map[string]int64 `json:"sizes"`     // after all of that
	Downgrade map[string]Downgrade        `json:"downgrade"` // by candidate
}

// CopyRecord is how a directory was copied: how many files by hard links, and how many by their bytes.
type CopyRecord struct {
	Linked  int     `json:"linked"`
	Copied  int     `json:"copied"`
	Bytes   int64   `json:"bytes"` // of all files
	Seconds float64 `json:"seconds"`
}

// UpgradeStart is a first start on the baseline's data. Times are from the start; CPU and bytes written to
// storage are from the start until nothing was left to do.
type UpgradeStart struct {
	Refused      string  `json:"refused"` // its last words, if it does not start on these data
	StartS       float64 `json:"start_s"`
	FirstAnswerS float64 `json:"first_answer_s"` // with data in it
	QuietS       float64 `json:"quiet_s"`
	CPUNS        int64   `json:"cpu_ns"`
	WrittenBytes int64   `json:"written_bytes"` // -1: unknown
}

// Downgrade is the baseline started on a candidate's directory.
type Downgrade struct {
	Starts  bool               `json:"starts"`
	StartS  float64            `json:"start_s"`
	Said    string             `json:"said"` // its last words if it does not start, else its first complaint
	Answers []DowngradeAnswers `json:"answers"`
}

// DowngradeAnswers compares its answers to queries of one window with those on the baseline's own data.
type DowngradeAnswers struct {
	Window string `json:"window"` // old, half, new
	Asked  int    `json:"asked"`
	Same   int    `json:"same"`
	Empty  int    `json:"empty"`
	What   string `json:"what"` // the first difference, or why it stopped answering
}

// RatesPart is a variant alone at fixed rates: one phase, or one for each rung of the ladder.
type RatesPart struct {
	IdleS  float64     `json:"idle_s"` // from the start until nothing was left to do
	Phases []RatePhase `json:"phases"`
}

// RatePhase is an open loop. Counters are the growth of the target's counters, by our name.
type RatePhase struct {
	Rate        float64            `json:"rate"` // operations a second, of a rung
	Seconds     float64            `json:"seconds"`
	Streams     []RateStream       `json:"streams"`
	CPUNS       int64              `json:"cpu_ns"` // of the servers
	ClientCPUNS int64              `json:"client_cpu_ns"`
	ClientShare float64            `json:"client_share"` // of the client's CPUs
	RSSBytes    int64              `json:"rss_bytes"`    // -1: unknown
	Counters    map[string]float64 `json:"counters"`
	Samples     int64              `json:"samples"` // sent, acknowledged and stored
	Void        string             `json:"void"`    // why it says nothing about the server, in a sentence
	Held        bool               `json:"held"`    // of a rung: the percentile of the response times is within the bound
}

// RateStream is the operations of one kind in a phase: planned = started + unstarted, started = answered +
// failed. Times are in ns by p50, p90, p99, p999 and max. Response is from the intended start, service from
// the start. Lateness is from the intended start, or from when a connection was free if that is later, to the
// start. Operations that were never started count in the response times with how long they had waited.
type RateStream struct {
	Operation string  `json:"operation"` // query or batch
	Rate      float64 `json:"rate"`      // a second, as planned
	Operations
	ResponseNS  map[string]int64 `json:"response_ns"`
	ServiceNS   map[string]int64 `json:"service_ns"`
	LatenessNS  map[string]int64 `json:"lateness_ns"`
	Connections int              `json:"connections"`
}

// Operations counts those of a stream.
type Operations struct {
	Planned   int    `json:"planned"`
	Started   int    `json:"started"`
	Answered  int    `json:"answered"`
	Failed    int    `json:"failed"`
	Unstarted int    `json:"unstarted"`
	Queued    int    `json:"queued"` // started late, without a free connection
	Late      int    `json:"late"`   // started late, although a connection was free
	Empty     int    `json:"empty"`
	Failure   string `json:"failure"` // the first failure
}

// Ratios are logs of candidate / baseline by metric, for the forecast; unknown ones are missing.
type Ratios map[string]float64

// Ratio adds the log of candidate / baseline, unless it is not finite.
func (b *Block) Ratio(candidate, metric string, log float64) {
	if math.IsNaN(log) || math.IsInf(log, 0) {
		return
	}
	if b.Ratios[candidate] == nil {
		b.Ratios[candidate] = Ratios{}
	}
	b.Ratios[candidate][metric] = log
}

// Difference is the first pair of answers to a query type that differ (raw/HOST/BBB/duel/differences.json).
type Difference struct {
	QueryType string   `json:"query_type"`
	K         int      `json:"k"`
	Query     string   `json:"query"` // the baseline's, then the other's if it is another
	Variants  []string `json:"variants"`
	Bodies    []string `json:"bodies"` // cut at 64 KiB
	What      string   `json:"what"`
}

// Noise is what the machine did over a phase; nil is a figure that the host does not have.
type Noise struct {
	Seconds         float64            `json:"seconds"`
	ClockStepS      *float64           `json:"clock_step_s"`
	CPUs            int                `json:"cpus"`
	BusyS           float64            `json:"busy_s"`
	StealS          float64            `json:"steal_s"`
	IowaitS         float64            `json:"iowait_s"`
	ServerS         *float64           `json:"server_s"`
	OwnS            *float64           `json:"own_s"` // of the client and of tsduel
	KernelS         *float64           `json:"kernel_s"`
	ForeignS        *float64           `json:"foreign_s"`
	ContextSwitches int64              `json:"context_switches"`
	SwapPages       int64              `json:"swap_pages"`
	TemperatureC    *float64           `json:"temperature_c"`
	PressureS       map[string]float64 `json:"pressure_s"` // cpu, io, memory: how long some process waited for it
	// How often, and for how long, a limit of CPU time held our processes back.
	Throttled  int64   `json:"throttled"`
	ThrottledS float64 `json:"throttled_s"`
}
