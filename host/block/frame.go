package block

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"tsduel/host/bound"
	"tsduel/host/checks"
	"tsduel/host/formats"
	"tsduel/host/machine"
	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/profiles"
	"tsduel/host/record"
	"tsduel/host/servers"
)

// frame is a block that runs, with what all its parts use.
type frame struct {
	record.Spec
	layout   *servers.Layout
	given    *servers.Given
	block    *record.Block
	variants map[string]*variant
	profiler *profiles.Reader // nil in measured blocks
	loaded   bool             // an earlier block's databases are used (design.reload: once)
	oomKills float64          // of the kernel, before the block
}

func newFrame(spec record.Spec, p *profiles.Reader) *frame {
	f := &frame{Spec: spec, block: record.NewBlock(spec.Row), variants: map[string]*variant{}, profiler: p,
		layout: servers.NewLayout(spec.Scratch, spec.Plan), oomKills: countOOMKills()}
	f.given = &servers.Given{Plan: spec.Plan, Builds: spec.Builds, Hidden: spec.Hidden, Layout: f.layout, Note: f.note,
		OutOfMemory: f.outOfMemory}
	return f
}

func countOOMKills() float64 { return noise.VMStat("oom_kill") }

// outOfMemory says that the kernel has killed a process for want of memory in this block, else nothing.
func (f *frame) outOfMemory() string {
	if countOOMKills() <= f.oomKills {
		return ""
	}
	return "; the kernel has ended a process for want of memory in this block: see dmesg, and take a larger machine " +
		"or fewer hosts"
}

func (f *frame) leave() {
	for _, v := range f.variants {
		v.Leave()
	}
}

// alive are the variants that can still be compared, in the plan's order: none without the baseline.
func (f *frame) alive() (alive []*variant) {
	for i, v := range f.Plan.Variants {
		if !f.variants[v.Name].failed {
			alive = append(alive, f.variants[v.Name])
		} else if i == 0 {
			return nil
		}
	}
	return alive
}

// all does something with each variant that is alive, in the order of loading.
func (f *frame) all(do func(*variant) error) error { return f.inOrder(f.Row.Order, do) }

// inOrder does something with each variant that is alive. A fault fails only the variant that has it.
func (f *frame) inOrder(order []string, do func(*variant) error) error {
	alive := f.alive()
	for _, name := range order {
		if v := f.variants[name]; slices.Contains(alive, v) {
			if err := f.blame(v, do(v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// steps runs steps until one returns an error or nothing is left to compare.
func (f *frame) steps(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil || f.decided() {
			return err
		}
	}
	return nil
}

// decided says that nothing is left to compare.
func (f *frame) decided() bool { return f.block.Void != "" || len(f.alive()) < 2 }

// blame records a variant's fault and ends its servers. It returns any other error as it is.
func (f *frame) blame(v *variant, err error) error {
	broken, ok := errors.AsType[*checks.Fault](err)
	if theirs, wrong := errors.AsType[bound.Theirs](err); wrong {
		broken, ok = &checks.Fault{Message: theirs.Error()}, true
	}
	if !ok {
		return err
	}
	v.failed = true
	f.block.Fail(record.Failure{Variant: v.Name, Part: v.Part, Phase: v.Phase, QueryType: v.QueryType,
		Message: f.Hidden.Mask(broken.Message)})
	return v.Close(true)
}

// leastBlamed is how much the logs of a variant take, in bytes, when they are to blame for a full disk: without them it
// would not be full (record.IsFull).
const leastBlamed = 16 << 20

// blameLogs blames the variants whose logs have filled the disk, and cuts these logs. The error of the full disk is
// then theirs: what was written when it came is not whole, so that the block has no result.
func (f *frame) blameLogs(err error) error {
	if _, full := record.IsFull(f.Dir); !full && !errors.Is(err, unix.ENOSPC) {
		return err
	}
	for _, v := range f.variants {
		var bytes int64
		var logs []string
		_ = filepath.WalkDir(filepath.Join(f.Dir, v.Name), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".log" {
				logs, bytes = append(logs, path), bytes+record.UsedBytes(path)
			}
			return nil
		})
		if bytes < leastBlamed {
			continue
		}
		blame := checks.Faultf("the disk of %s was full: the logs of %s took %d MiB of it, and are cut", f.RunDir, v.Name,
			bytes>>20)
		if failed := f.blame(v, blame); failed != nil {
			return failed
		}
		for _, log := range logs {
			if _, failed := proc.CutLog(log, 0); failed != nil {
				return failed
			}
		}
		if errors.Is(err, unix.ENOSPC) {
			f.block.Fail(record.Failure{Message: blame.Error()})
			err = nil
		}
	}
	return err
}

// clientCPUs is how many CPUs the client may use.
func (f *frame) clientCPUs() float64 {
	return float64(max(1, cmp.Or(len(f.Host.Pin.Client), f.Host.CPUs)))
}

// loadsInTurn says that the queries are asked of the data that was loaded in turn (design.load: in_turn).
func (f *frame) loadsInTurn() bool { return f.Plan.Design.Load == record.InTurn }

// samplesOf is how many samples the first lines of a file have. Each line of TSBS has as many.
func (f *frame) samplesOf(target record.Target, file string, lines int64) (int64, error) {
	w := f.Plan.Workload
	if w.OwnData == nil || lines == w.Lines {
		return lines * w.Samples / max(1, w.Lines), nil
	}
	return formats.Count(file, target.DataFormat, lines)
}

// prepare makes the block's directories, and finds whether an earlier block has loaded.
func (f *frame) prepare() (err error) {
	data := filepath.Join(f.Scratch, "data")
	if f.Plan.Design.Reload == "once" {
		_, missing := os.Stat(f.layout.LoadedMark())
		f.loaded = missing == nil
	}
	// A killed block may have left programs in its places, and logs with secrets.
	fresh := machine.Directories{Make: []string{f.layout.EmptyDir(), filepath.Join(data, "copies")},
		Remove: []string{f.layout.PlacesDir()}}
	if !f.loaded {
		fresh.Wipe = []string{data}
	} else if why := record.WhyNotOurs(data); why != "" {
		return record.UserError("%s", why)
	} else {
		fresh.Remove = append(fresh.Remove, filepath.Join(data, "logs"))
	}
	for _, v := range f.variants {
		fresh.Make = append(fresh.Make, v.Data)
		err = errors.Join(err, os.MkdirAll(filepath.Join(v.Dir, "query"), 0o777))
	}
	return errors.Join(err, machine.Prepare(fresh))
}

// loadedBy is the variant whose load another one reads: itself, or the baseline.
func (f *frame) loadedBy(name string) string {
	if f.Plan.Design.LoadedBy == "baseline" {
		return f.Plan.Variants[0].Name
	}
	return name
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
}

// markLoaded says that later blocks need not load, if the plan has one load for all.
func (f *frame) markLoaded() error {
	if f.loaded || f.Plan.Design.Reload != "once" || f.block.Status != record.OK {
		return nil
	}
	if err := record.SyncDisk(f.Scratch); err != nil {
		return err
	}
	return machine.Prepare(machine.Directories{Make: []string{f.layout.LoadedMark()}})
}

// variant is one side in a block.
type variant struct {
	*servers.Variant
	in      *frame
	failed  bool
	lacking []string // optional counters that it does not have
}

func newVariant(f *frame, v record.Variant) *variant {
	return &variant{Variant: servers.New(v, f.given, filepath.Join(f.Dir, v.Name), f.block), in: f}
}

// endpoints are where profiles of the servers of variants are read.
func endpoints(variants ...*variant) (all []profiles.Endpoint) {
	for _, v := range variants {
		for _, s := range v.Running {
			all = append(all, profiles.Endpoint{Variant: v.Name, Role: s.Role, URL: s.Base() + v.Module.Pprof + "/"})
		}
	}
	return all
}

// note emits a remark; variant and queryType may be empty.
func (f *frame) note(variant, queryType, message string) {
	f.Events.Note(f.block.Block, variant, queryType, message)
}

// byRole keeps a figure by role, if a variant of the run has several components.
func (f *frame) byRole(in *record.ByRole, key string, by map[string]int64) {
	if !slices.ContainsFunc(f.Plan.Variants, func(v record.Variant) bool { return len(v.Components) > 1 }) {
		return
	}
	if *in == nil {
		*in = record.ByRole{}
	}
	(*in)[key] = by
}
