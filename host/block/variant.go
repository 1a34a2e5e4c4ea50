package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// variant is one side in a block, with its servers while they run.
type variant struct {
	record.Variant
	*frame
	servers
	checks
	target       record.Target
	dir          string  // of its files in this block
	data         string  // its databases, one directory a role
	seat         *seat   // where its programs lie; nil while none runs
	silent       *server // the last one that did not answer with its counters
	snapshots    *scrape.Snapshots
	failed       bool
	lacking      []string               // optional counters that it does not have
	objects      map[string]int64       // that each component has allocated, as last read
	instructions *exchange.Instructions // nil unless they are counted, in a duel
}

func newVariant(f *frame, v record.Variant) *variant {
	return &variant{Variant: v, frame: f, target: f.Plan.Targets[v.Target], dir: filepath.Join(f.Dir, v.Name),
		data: f.dataDir("loaded", v.Name), checks: checks{of: v.Name, in: f.block}, objects: map[string]int64{}}
}

func (v *variant) begin(part, phase, queryType string) *span {
	s := v.frame.begin(v.Name, part, phase, queryType)
	v.enter(part, phase, queryType)
	return s
}

// server is a component that does not run yet.
func (v *variant) server(c record.Component) *server {
	build := v.Builds.Variants[v.Name]
	s := &server{variant: v, component: c, role: c.Role, program: build.Binary, ports: map[string]int{},
		address: machine.Address, hidden: v.Hidden}
	for _, built := range build.Components {
		if built.Role == c.Role {
			s.program = built.Binary
		}
	}
	return s
}

// launch places all components, starts them from the last to the first, since each needs those after it, and
// checks who can reach them. seconds are from the first start until all are ready.
func (v *variant) launch(ctx context.Context, logPrefix string, cpus []int) (seconds float64, err error) {
	var placed []*server
	v.seat = v.takeSeat()
	for i, c := range v.Components {
		s := v.server(c)
		to := filepath.Join(v.seat.dir, twoDigits(1+i))
		if s.program, err = proc.Place(s.program, to); err != nil {
			return 0, err
		}
		placed = append(placed, s)
	}
	begin := time.Now()
	for _, s := range slices.Backward(placed) {
		if err := s.start(ctx, logPrefix, cpus); err != nil {
			return 0, err
		}
	}
	seconds = time.Since(begin).Seconds()
	var sources []scrape.Source
	for _, s := range v.servers {
		s.pid = cmp.Or(s.listener(), s.pid) // a wrapper may have started it
		if err := s.findAddresses(ctx); err != nil {
			return 0, err
		}
		sources = append(sources,
			scrape.Source{Role: s.role, Kernel: s.kernel, Counters: s.counters, Slow: s.metrics == ""})
	}
	if v.url() == "" || v.writeURL() == "" {
		return 0, fmt.Errorf("%s/endpoints names no address for clients of %s", v.Target, v.Name)
	}
	if v.snapshots != nil {
		v.snapshots.Sources = sources
	}
	return seconds, v.onlyOurs()
}

// onlyOurs checks the addresses that the servers listen at: flags of an experiment may add some.
func (v *variant) onlyOurs() error {
	var open, unseen []string
	for _, s := range v.servers {
		all := slices.Concat(slices.Collect(maps.Values(machine.Listeners(s.process.Pid)))...)
		for _, at := range all {
			if !at.Addr().IsLoopback() {
				open = append(open, at.String())
			}
		}
		if len(all) == 0 {
			unseen = append(unseen, s.role)
		}
	}
	c := record.Check{Check: "listens_on_loopback", Phase: v.phase, Actual: float64(len(open)),
		OK: len(open)+len(unseen) == 0}
	c.Message = fmt.Sprintf("%s listens for others, at %s: take the flag that says so out of the experiment", v.Name,
		strings.Join(open, " and "))
	if len(open) == 0 {
		c.Message = fmt.Sprintf("could not be checked: no process of %s's %s is seen to listen", v.Name,
			strings.Join(unseen, " and "))
	}
	return v.check(c)
}

// shutdown stops all components gracefully, in their order. seconds are until the last one has ended.
func (v *variant) shutdown(ctx context.Context) (seconds float64, err error) {
	if err := v.died(); err != nil {
		return 0, err
	}
	patience, begin := record.Seconds(v.Plan.Watchdog.StopS), time.Now()
	for _, s := range v.servers {
		if _, err := s.ask(ctx, patience, "stop"); err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-s.process.Ended():
		case <-time.After(patience - time.Since(begin)):
			if err := s.process.Kill(); err != nil {
				return 0, err
			}
			return 0, faultf("the %s (pid %d) had to be killed: it did not stop within %v; %s", s.role,
				s.process.Pid, patience, lastWords(s))
		}
		if err := s.process.Kill(); err != nil { // what it has left would use CPU beside the other variant
			return 0, err
		}
	}
	seconds = time.Since(begin).Seconds()
	for _, s := range v.servers {
		if err := errors.Join(s.maskLog(), s.quietLog()); err != nil {
			return 0, err
		}
	}
	v.leave()
	return seconds, nil
}

// close gives up a variant's servers and snapshots. kill: servers may run, and their data are not needed.
func (v *variant) close(kill bool) (err error) {
	for _, s := range v.servers {
		if kill && err == nil && !s.deployed() {
			err = s.process.Kill()
		}
		err = errors.Join(err, s.maskLog())
	}
	v.leave()
	if v.snapshots != nil {
		err = errors.Join(err, v.snapshots.Close())
		v.snapshots = nil
	}
	return err
}

func (v *variant) leave() {
	v.servers = nil
	v.instructions.Close()
	v.instructions = nil
	if v.seat != nil {
		delete(v.seats, v.seat.number)
		v.seat = nil
	}
}

// askStopped calls a verb for each component while none runs. It returns the answers by role.
func (v *variant) askStopped(ctx context.Context, verb string) (answers map[string]string, err error) {
	answers = map[string]string{}
	for _, c := range v.Components {
		answers[c.Role], err = v.server(c).ask(ctx, record.Seconds(v.Plan.Watchdog.StopS), verb)
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// forget deletes the answers that the stopped components keep on disk.
func (v *variant) forget(ctx context.Context) error {
	_, err := v.askStopped(ctx, "forget")
	return err
}

// sizes are the bytes that the stopped components have on disk, by the size's name: by role, and in all.
func (v *variant) sizes(ctx context.Context) (by record.ByRole, sum map[string]int64, err error) {
	by, sum = record.ByRole{}, map[string]int64{}
	answers, err := v.askStopped(ctx, "size")
	for role, answer := range answers {
		for line := range strings.Lines(answer) {
			name, bytes, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseInt(bytes, 10, 64)
			if err != nil {
				return by, sum, faultf("%s/size printed no NAME BYTES: %s", v.Target, scrape.OneLine(line))
			}
			if by[name] == nil {
				by[name] = map[string]int64{}
			}
			by[name][role] = n
			sum[name] += n
		}
	}
	return by, sum, err
}

// equalize makes a stopped variant start as the others do: without kept answers, which is checked, and with
// its data read once into the page cache (read, in bytes) or, for a cold cache, dropped from it.
func (v *variant) equalize(ctx context.Context) (noAnswers bool, read int64, err error) {
	if err := v.forget(ctx); err != nil {
		return false, 0, err
	}
	_, sizes, err := v.sizes(ctx)
	if err != nil {
		return false, 0, err
	}
	noAnswers = v.equalStart(sizes["cache_bytes"], fmt.Sprintf("%s began with %d bytes of answers on disk, which an "+
		"earlier process left", v.Name, sizes["cache_bytes"]))
	if v.Plan.Queries.Cache == "cold" {
		return noAnswers, 0, machine.Drop(ctx, v.data)
	}
	read, err = machine.ReadOnce(ctx, v.data)
	return noAnswers, read, err
}

// empty removes what a variant, or a block that was killed, has stored. anew makes its directories again.
func (v *variant) empty(anew bool) error {
	fresh := machine.Directories{Remove: []string{v.data}}
	for _, c := range v.Components {
		if anew {
			fresh.Make = append(fresh.Make, filepath.Join(v.data, c.Role))
		}
	}
	return machine.Prepare(fresh)
}

// answersKept checks that the servers started without answers in their memory, by their counters before any query.
func (v *variant) answersKept(counters []byte) error {
	counter, has := v.target.Counters["answers_kept"]
	if !has {
		return nil
	}
	if len(counters) == 0 {
		return faultf("equal_start could not be checked: %s", v.unread())
	}
	kept, found, err := scrape.Sum(counters, counter)
	if err != nil {
		return err
	}
	wrong := fmt.Sprintf("%s began with %.0f cached answers in its memory, which an earlier process left", v.Name, kept)
	if !found {
		kept, wrong = -1, fmt.Sprintf("with how many cached answers in its memory %s began is not known: %s is not in its "+
			"/metrics", v.Name, counter.Name)
	}
	v.equalStart(int64(kept), wrong)
	return nil
}

func (v *variant) countInstructions() (err error) {
	if !v.Host.Instructions {
		return nil
	}
	var pids []int
	for _, s := range v.servers {
		pids = append(pids, s.pid)
	}
	v.instructions, err = exchange.CountInstructions(pids...)
	return cmp.Or(v.died(), err)
}

// metrics are the texts of all components; nil if one does not answer.
func (v *variant) metrics(ctx context.Context) (all []byte) {
	for _, s := range v.servers {
		body, err := s.counters(ctx)
		if err != nil {
			v.silent = s
			return nil
		}
		if sum, found, err := scrape.Sum(body, v.target.Counters["objects"]); err == nil && found {
			v.objects[s.role] = int64(sum)
		}
		all = append(append(all, body...), '\n')
		if !s.deployed() {
			all = append(all, ofKernel(s)...)
		}
	}
	return all
}

// unread says where metrics got no answer.
func (v *variant) unread() string {
	return "its counters cannot be read at " + cmp.Or(cmp.Or(v.silent, v.queryServer()).metrics, v.Target+"/metrics")
}
