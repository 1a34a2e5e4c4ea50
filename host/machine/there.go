package machine

import (
	"net/netip"
	"time"

	"tsduel/host/openloop"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// FreePort is of Machine.
func (t *There) FreePort(a Ports, r *int) error { return t.ask("FreePort", a, r) }

// Start is of Machine.
func (t *There) Start(a Command, r *int) error { return t.ask("Start", a, r) }

// Await is of Machine.
func (t *There) Await(a int, r *proc.Exit) error { return t.ask("Await", a, r) }

// Kill is of Machine.
func (t *There) Kill(a int, r *None) error { return t.ask("Kill", a, r) }

// Run is of Machine.
func (t *There) Run(a Command, r *Said) error { return t.ask("Run", a, r) }

// Listeners is of Machine.
func (t *There) Listeners(a int, r *map[int][]netip.AddrPort) error { return t.ask("Listeners", a, r) }

// CPU is of Machine.
func (t *There) CPU(a int, r *time.Duration) error { return t.ask("CPU", a, r) }

// Counters is of Machine.
func (t *There) Counters(a int, r *proc.Counters) error { return t.ask("Counters", a, r) }

// Look is of Machine.
func (t *There) Look(a []int, r *int) error { return t.ask("Look", a, r) }

// Since is of Machine.
func (t *There) Since(a Span, r *record.Noise) error { return t.ask("Since", a, r) }

// Canary is of Machine.
func (t *There) Canary(a string, r *record.Canary) error { return t.ask("Canary", a, r) }

// Prepare is of Machine.
func (t *There) Prepare(a Directories, r *None) error { return t.ask("Prepare", a, r) }

// Copy is of Machine.
func (t *There) Copy(a Pair, r *None) error { return t.ask("Copy", a, r) }

// ReadOnce is of Machine.
func (t *There) ReadOnce(a Reading, r *int64) error { return t.ask("ReadOnce", a, r) }

// Log is of Machine.
func (t *There) Log(a Piece, r *[]byte) error { return t.ask("Log", a, r) }

// Sync is of Machine.
func (t *There) Sync(a string, r *None) error { return t.ask("Sync", a, r) }

// DropCaches is of Machine.
func (t *There) DropCaches(a string, r *None) error { return t.ask("DropCaches", a, r) }

// OOMKills is of Machine.
func (t *There) OOMKills(a None, r *float64) error { return t.ask("OOMKills", a, r) }

// Disk is of Machine.
func (t *There) Disk(a string, r *Disk) error { return t.ask("Disk", a, r) }

// Describe is of Machine.
func (t *There) Describe(a string, r *record.Facts) error { return t.ask("Describe", a, r) }

// Sums is of Machine.
func (t *There) Sums(a []string, r *map[string]string) error { return t.ask("Sums", a, r) }

// Workload is of Machine.
func (t *There) Workload(a None, r *record.Workload) error { return t.ask("Workload", a, r) }

// Prime is of Machine.
func (t *There) Prime(a openloop.Asked, r *int) error { return t.ask("Prime", a, r) }

// Loop is of Machine.
func (t *There) Loop(a Instant, r *Looped) error { return t.ask("Loop", a, r) }

// Hold is of Machine.
func (t *There) Hold(a Held, r *int) error { return t.ask("Hold", a, r) }

// LetGo is of Machine.
func (t *There) LetGo(a Instant, r *Ran) error { return t.ask("LetGo", a, r) }
