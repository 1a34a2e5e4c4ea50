package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// readyEvery is how often a server that starts is asked whether it answers.
const readyEvery = 50 * time.Millisecond

// verb is one call of a database's adapter (scripts/targets/DB/VERB); the files are a client's.
type verb struct {
	name                  string
	args, env             []string
	stdin, stdout, stderr *os.File
}

// start starts a client's verb here.
func (f *frame) start(v *variant, s *server, c verb) (*proc.Process, error) {
	return machine.Execute(f.command(v, s, c), c.stdin, c.stdout, c.stderr)
}

// command is a verb for one server.
func (f *frame) command(v *variant, s *server, c verb) machine.Command {
	call := machine.Command{Argv: append([]string{filepath.Join(f.targets, v.Target, c.name)}, c.args...), Dir: f.emptyDir(), Scratch: f.Scratch}
	var env []string
	if c.name == "start" {
		component := v.component(s.role)
		for name, value := range component.Env {
			env = append(env, name+"="+value)
		}
		// A directory of the files that the experiment gives it, and of nothing else.
		if len(component.Files) > 0 {
			call.Dir, call.Files = filepath.Join(f.Scratch, "files", v.Name, s.role), component.Files
		}
	}
	env = append(env,
		"DB_ROLE="+s.role, "DB_BINARY="+f.binary(v, s.role), "DB_DATA_DIR="+filepath.Join(v.data, s.role), "DB_HOST="+s.address,
		"DB_URL="+v.url(), "DB_WRITE_URL="+v.written().writes, "DB_PID="+strconv.Itoa(s.pid), "DB_CACHE="+f.Plan.Queries.Cache,
		"DB_SETTLE="+f.Plan.Settle.Mode, "TSBS_BIN="+f.Builds.TSBSBin)
	if f.Lent != nil { // what the hosts say to each other goes through no proxy
		env = append(env, "NO_PROXY=*", "no_proxy=*")
	}
	call.Env = append(append(env, s.ours()...), c.env...)
	for _, one := range v.servers {
		call.Env = append(call.Env, one.addresses()...)
	}
	return call
}

// ours are DB_PORT and, of more ports, DB_PORT_NAME.
func (s *server) ours() []string {
	env := []string{"DB_PORT=" + strconv.Itoa(s.port)}
	for name, port := range s.ports {
		env = append(env, "DB_PORT_"+variable(name)+"="+strconv.Itoa(port))
	}
	return env
}

// addresses are DB_AT_ROLE and, of more ports, DB_AT_ROLE_NAME: HOST:PORT of one that runs, for the others.
func (s *server) addresses() []string {
	at := func(port int) string { return "=" + net.JoinHostPort(s.address, strconv.Itoa(port)) }
	name := "DB_AT_" + variable(s.role)
	env := []string{name + at(s.port)}
	for more, port := range s.ports {
		env = append(env, name+"_"+variable(more)+at(port))
	}
	return env
}

func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// ask calls a verb that answers with text, on the component's machine; the error is its own last words.
func (f *frame) ask(ctx context.Context, v *variant, s *server, patience time.Duration, name string, env ...string) (string, error) {
	call := f.command(v, s, verb{name: name, env: env})
	call.Patience = patience
	var said machine.Said
	if err := s.on.Run(call, &said); err != nil || ctx.Err() != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	switch {
	case said.Late:
		return "", faultf("%s/%s did not return within %v", v.Target, name, patience)
	case said.Code != 0:
		return "", faultf("%s/%s ended with %s: %s", v.Target, name, exitWords(said.Code), wordsOf(said.Err, said.Out))
	}
	return string(said.Out), nil
}

// emptyDir is where clients run: TSBS's commands read ./config.* as defaults.
func (f *frame) emptyDir() string { return filepath.Join(f.Scratch, "empty") }

func (v *variant) component(role string) record.Component {
	at := slices.IndexFunc(v.Components, func(c record.Component) bool { return c.Role == role })
	return v.Components[at]
}

func (f *frame) binary(v *variant, role string) string {
	build := f.Builds.Variants[v.Name]
	for _, c := range build.Components {
		if c.Role == role {
			return c.Binary
		}
	}
	return build.Binary
}

// url is where queries go.
func (v *variant) url() string { return v.front().queries }

// front is the server that takes queries: the first component that says so.
func (v *variant) front() *server { return v.first(func(s *server) bool { return s.queries != "" }) }

// written is the one that takes data.
func (v *variant) written() *server { return v.first(func(s *server) bool { return s.writes != "" }) }

func (v *variant) first(takes func(*server) bool) *server {
	if at := slices.IndexFunc(v.servers, takes); at >= 0 {
		return v.servers[at]
	}
	return &server{} // none is up yet
}

// launch starts all components of a variant, the last one first, so that each finds those that it asks; waits until they
// answer, and looks at who may reach them. Seconds are from the first start to the last answer.
func (f *frame) launch(ctx context.Context, v *variant, logPrefix string, cpus []int) (seconds float64, err error) {
	begin := time.Now()
	for _, c := range slices.Backward(v.Components) {
		s := f.server(c.Role)
		s.log = filepath.Join(v.dir, logPrefix+c.Role+".log")
		if s.logThere = s.log; s.host != "" {
			s.logThere = filepath.Join(f.Scratch, "data", "logs", v.Name, filepath.Base(s.log))
		}
		if s.port, err = f.freePort(s); err != nil {
			return 0, err
		}
		for _, name := range v.target.Ports[c.Role] {
			if s.ports[name], err = f.freePort(s); err != nil {
				return 0, err
			}
		}
		call := f.command(v, s, verb{name: "start", args: c.Flags})
		call.Log, call.CPUs, call.Make = s.logThere, cpus, []string{filepath.Join(v.data, c.Role)}
		if s.process, err = machine.Start(s.on, call); err != nil {
			return 0, err
		}
		s.pid = s.process.Pid
		v.servers = slices.Insert(v.servers, 0, s)
		if err := f.waitReady(ctx, v, s); err != nil {
			return 0, err
		}
	}
	seconds = time.Since(begin).Seconds()
	for _, s := range v.servers {
		now, err := s.listener()
		if err != nil {
			return 0, err
		}
		s.pid = cmp.Or(now, s.pid)
		said, err := f.ask(ctx, v, s, scrape.Timeout, "endpoints")
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(said) {
			switch what, url, _ := strings.Cut(strings.TrimSpace(line), " "); what {
			case "clients":
				s.queries, s.writes = url, url
			case "queries":
				s.queries = url
			case "writes":
				s.writes = url
			case "metrics":
				s.metrics = url
			}
		}
	}
	if v.url() == "" || v.written().writes == "" {
		return 0, fmt.Errorf("%s/endpoints names no address for clients of %s", v.Target, v.Name)
	}
	if sources := f.sources(v); v.snapshots != nil {
		v.snapshots.Sources = sources
	}
	return seconds, f.onlyOurs(v)
}

// server is one of a role that does not run yet, with its machine.
func (f *frame) server(role string) *server {
	s := &server{role: role, ports: map[string]int{}}
	s.on, s.host = f.on(role)
	if s.address = "127.0.0.1"; f.Lent != nil {
		s.address = f.Lent.Hosts[cmp.Or(s.host, f.Host.Host)]
	}
	return s
}

func (f *frame) sources(v *variant) (sources []scrape.Source) {
	for _, s := range v.servers {
		s.counters = func(ctx context.Context) (text []byte, err error) {
			if s.metrics != "" {
				text, err = scrape.Fetch(ctx, s.metrics)
			} else {
				said, failed := f.ask(ctx, v, s, scrape.Timeout, "metrics")
				text, err = []byte(said), failed
			}
			return scrape.OfRole(s.role, text), err
		}
		sources = append(sources, scrape.Source{Role: s.role, Kernel: s.kernel, Counters: s.counters, Slow: s.metrics == ""})
	}
	return sources
}

func (f *frame) waitReady(ctx context.Context, v *variant, s *server) error {
	begin, health := time.Now(), record.Seconds(f.Plan.Watchdog.HealthS)
	for {
		_, err := f.ask(ctx, v, s, health, "ready")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.process.Ended():
			var dead *fault
			if errors.As(f.died(v), &dead) {
				dead.unready = true
				return dead
			}
			return nil
		case <-time.After(readyEvery):
		}
		if time.Since(begin) > health {
			return &fault{fmt.Sprintf("the %s did not become healthy within %v: %s", s.role, health, lastWords(s)), true}
		}
	}
}

// died is the fault of the server that has ended by itself; nil while all run.
func (f *frame) died(v *variant) error {
	for _, s := range v.servers {
		if !s.process.Alive() {
			return faultf("the %s (pid %d) died: %s%s", s.role, s.process.Pid, lastWords(s), f.wantOfMemory())
		}
	}
	return nil
}

// leftBy is died once a client has ended with that code: where a server dies, its connections break a moment before it is gone.
func (f *frame) leftBy(ctx context.Context, code int, v *variant) error {
	for _, s := range v.servers {
		if code == 0 {
			break
		}
		select {
		case <-s.process.Ended():
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return f.died(v)
}

// listener is the process that answers at a server's port: what was started, or, behind a wrapper, one of its session. 0 for none.
func (s *server) listener() (pid int, err error) {
	var at map[int][]netip.AddrPort
	if err := s.on.Listeners(s.process.Pid, &at); err != nil {
		return 0, err
	}
	for _, pid := range append([]int{s.process.Pid}, slices.Sorted(maps.Keys(at))...) {
		if slices.ContainsFunc(at[pid], func(a netip.AddrPort) bool { return int(a.Port()) == s.port }) {
			return pid, nil
		}
	}
	return 0, nil
}

// onlyOurs looks at what really listens: flags of an experiment may add addresses to the one that we give.
func (f *frame) onlyOurs(v *variant) error {
	var open, unseen []string
	for _, s := range v.servers {
		var at map[int][]netip.AddrPort
		if err := s.on.Listeners(s.process.Pid, &at); err != nil {
			return err
		}
		all := slices.Concat(slices.Collect(maps.Values(at))...)
		for _, a := range all {
			if !a.Addr().IsLoopback() && a.Addr().String() != s.address {
				open = append(open, a.String())
			}
		}
		if len(all) == 0 {
			unseen = append(unseen, s.role)
		}
		if len(all) > 0 && s.host != "" && !slices.ContainsFunc(all, func(a netip.AddrPort) bool { return a.Addr().String() == s.address }) {
			return faultf("the %s does not listen at %s (DB_HOST), where the client on another host looks for it: scripts/targets/%s/start has to say so", s.role, s.address, v.Target)
		}
	}
	c := record.Check{Check: "listens_on_loopback", Phase: v.phase.Phase, Expected: 0, Actual: float64(len(open)), OK: len(open)+len(unseen) == 0}
	c.Message = fmt.Sprintf("%s listens for others, at %s: take the flag that says so out of the experiment", v.Name, strings.Join(open, " and "))
	if len(open) == 0 {
		c.Message = fmt.Sprintf("could not be checked: no process of %s's %s is seen to listen", v.Name, strings.Join(unseen, " and "))
	}
	return f.check(v, c)
}

// bringLog copies what the log of a component on another machine has beyond the copy here.
func (s *server) bringLog() error { return bring(s.on, s.logThere, s.log) }

// bring copies what a file on another machine has beyond the copy here; there is where it is the same file.
func bring(on machine.Machine, there, here string) error {
	if there == here {
		return nil
	}
	copied, err := os.OpenFile(here, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer copied.Close()
	for {
		info, err := copied.Stat()
		if err != nil {
			return err
		}
		var more []byte
		if err := on.Log(machine.Piece{Path: there, From: info.Size()}, &more); err != nil || len(more) == 0 {
			return err
		}
		if _, err := copied.Write(more); err != nil {
			return err
		}
	}
}

// sameProcess checks that who answers is who answered when the servers were started.
func (f *frame) sameProcess(v *variant) error {
	for _, s := range v.servers {
		now, err := s.listener()
		if err != nil {
			return err
		}
		if err := f.equal(v, "same_process", float64(s.pid), float64(now),
			fmt.Sprintf("the %s was process %d at the start and is %d now: it was restarted", s.role, s.pid, now)); err != nil {
			return err
		}
	}
	return nil
}

// shutdown stops all components gracefully, those that take clients first. Seconds are until the last one has ended.
func (f *frame) shutdown(ctx context.Context, v *variant) (seconds float64, err error) {
	if err := f.died(v); err != nil {
		return 0, err
	}
	patience := record.Seconds(f.Plan.Watchdog.StopS)
	begin := time.Now()
	for _, s := range v.servers {
		if _, err := f.ask(ctx, v, s, patience, "stop"); err != nil {
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
			return 0, faultf("the %s (pid %d) had to be killed: it did not stop within %v; %s", s.role, s.process.Pid, patience, lastWords(s))
		}
	}
	seconds = time.Since(begin).Seconds()
	for _, s := range v.servers {
		if err := errors.Join(s.bringLog(), f.quietLog(v, s.log)); err != nil {
			return 0, err
		}
	}
	v.servers = nil
	return seconds, nil
}

// forget deletes what the stopped components keep on disk of answers.
func (f *frame) forget(ctx context.Context, v *variant) error {
	return f.each(ctx, v, "forget", func(string, string) error { return nil })
}

// sizes adds up what the stopped components have on disk.
func (f *frame) sizes(ctx context.Context, v *variant) (map[string]int64, error) {
	by, err := f.sizesByRole(ctx, v)
	sum := map[string]int64{}
	for name, of := range by {
		sum[name] = usage(of).sum()
	}
	return sum, err
}

// sizesByRole are the sizes of each, by name.
func (f *frame) sizesByRole(ctx context.Context, v *variant) (record.ByRole, error) {
	by := record.ByRole{}
	return by, f.each(ctx, v, "size", func(role, said string) error {
		for line := range strings.Lines(said) {
			name, bytes, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseInt(bytes, 10, 64)
			if err != nil {
				return faultf("%s/size printed no NAME BYTES: %s", v.Target, scrape.OneLine(line))
			}
			if by[name] == nil {
				by[name] = map[string]int64{}
			}
			by[name][role] = n
		}
		return nil
	})
}

func (f *frame) each(ctx context.Context, v *variant, verb string, take func(role, said string) error) error {
	for _, c := range v.Components {
		said, err := f.ask(ctx, v, f.server(c.Role), record.Seconds(f.Plan.Watchdog.StopS), verb)
		if err == nil {
			err = take(c.Role, said)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
