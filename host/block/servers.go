package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// readyEvery is how often a server that starts is asked whether it answers.
const readyEvery = 50 * time.Millisecond

// verb is one call of a database's adapter (scripts/targets/DB/VERB).
type verb struct {
	name                  string
	args, env             []string
	stdin, stdout, stderr *os.File
	cpus                  []int
}

// start starts a verb for one server.
func (f *frame) start(v *variant, s *server, c verb) (*proc.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Not by its first line: a PATH of the experiment is the server's, and not for finding bash.
	bash, err := exec.LookPath("bash")
	if err != nil {
		return nil, record.UserError("bash is missing here, and databases are started by it: install it")
	}
	var env []string
	if c.name == "start" {
		for name, value := range v.component(s.role).Env {
			env = append(env, name+"="+value)
		}
	}
	env = append(env,
		"DB_ROLE="+s.role, "DB_BINARY="+f.binary(v, s.role), "DB_DATA_DIR="+filepath.Join(v.data, s.role),
		"DB_URL="+v.url(), "DB_WRITE_URL="+v.written().writes, "DB_PID="+strconv.Itoa(s.pid), "DB_CACHE="+f.Plan.Queries.Cache,
		"DB_SETTLE="+f.Plan.Settle.Mode, "TSBS_BIN="+f.Builds.TSBSBin, "TSDUEL_HOST="+self)
	env = append(append(env, s.ours()...), c.env...)
	for _, one := range v.servers {
		env = append(env, one.addresses()...)
	}
	dir := f.emptyDir()
	if c.name == "start" {
		if dir, err = f.filesOf(v, s.role); err != nil {
			return nil, err
		}
	}
	return proc.Start(proc.Command{
		Argv: append([]string{bash, filepath.Join(f.targets, v.Target, c.name)}, c.args...), Env: env, Dir: dir, Scratch: f.Scratch,
		Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr, CPUs: c.cpus,
	})
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
	at := "DB_AT_" + variable(s.role)
	env := []string{at + "=127.0.0.1:" + strconv.Itoa(s.port)}
	for name, port := range s.ports {
		env = append(env, at+"_"+variable(name)+"=127.0.0.1:"+strconv.Itoa(port))
	}
	return env
}

func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// filesOf is a directory of the files that the experiment gives a component, and of nothing else.
func (f *frame) filesOf(v *variant, role string) (string, error) {
	files := v.component(role).Files
	if len(files) == 0 {
		return f.emptyDir(), nil
	}
	dir := filepath.Join(f.Scratch, "files", v.Name, role)
	err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o777))
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	return dir, err
}

// ask calls a verb that answers with text; the error is its own last words.
func (f *frame) ask(ctx context.Context, v *variant, s *server, patience time.Duration, name string, env ...string) (string, error) {
	said, err := memory(name)
	if err != nil {
		return "", err
	}
	defer said.Close()
	complaint, err := memory(name)
	if err != nil {
		return "", err
	}
	defer complaint.Close()
	p, err := f.start(v, s, verb{name: name, env: env, stdout: said, stderr: complaint})
	if err != nil {
		return "", err
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	exit, err := p.Wait(bounded)
	if err != nil {
		if killed := p.Kill(); killed != nil {
			return "", killed
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", faultf("%s/%s did not return within %v", v.Target, name, patience)
	}
	if exit.Code != 0 {
		return "", faultf("%s/%s ended with %s: %s", v.Target, name, exitWords(exit.Code), clientWords(complaint.Name(), said.Name()))
	}
	text, err := os.ReadFile(said.Name())
	return string(text), err
}

// memory is a file that needs no disk; its name can be read while it is open.
func memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd)), nil
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
		s := &server{role: c.Role, log: filepath.Join(v.dir, logPrefix+c.Role+".log"), ports: map[string]int{}}
		if s.port, err = f.freePort(nil); err != nil {
			return 0, err
		}
		for _, name := range v.target.Ports[c.Role] {
			if s.ports[name], err = f.freePort(s); err != nil {
				return 0, err
			}
		}
		if err := os.MkdirAll(filepath.Join(v.data, c.Role), 0o777); err != nil {
			return 0, err
		}
		log, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return 0, err
		}
		s.process, err = f.start(v, s, verb{name: "start", args: c.Flags, stdout: log, stderr: log, cpus: cpus})
		_ = log.Close()
		if err != nil {
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
		s.pid = cmp.Or(f.listener(s), s.pid)
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
	return seconds, f.onLoopback(v)
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
		sources = append(sources, scrape.Source{Role: s.role, Pid: s.pid, Counters: s.counters, Slow: s.metrics == ""})
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
			return &fault{fmt.Sprintf("the %s did not become healthy within %v: %s", s.role, health, lastWords(s.log)), true}
		}
	}
}

// died is the fault of the server that has ended by itself; nil while all run.
func (f *frame) died(v *variant) error {
	for _, s := range v.servers {
		if !s.process.Alive() {
			return faultf("the %s (pid %d) died: %s%s", s.role, s.process.Pid, lastWords(s.log), f.wantOfMemory())
		}
	}
	return nil
}

// ended is died for whoever has just lost a connection, which breaks a moment before the process is gone.
func (f *frame) ended(ctx context.Context, v *variant) error {
	for _, s := range v.servers {
		select {
		case <-s.process.Ended():
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return f.died(v)
}

// listener is the process that answers at a server's port: what was started, or, behind a wrapper, one of its session.
func (f *frame) listener(s *server) int {
	if listens(s.process.Pid, s.port) {
		return s.process.Pid
	}
	for _, p := range proc.Processes() {
		if p.Session == s.process.Pid && listens(p.PID, s.port) {
			return p.PID
		}
	}
	return 0
}

func listens(pid, port int) bool {
	return slices.ContainsFunc(proc.Listeners(pid), func(a netip.AddrPort) bool { return int(a.Port()) == port })
}

// onLoopback looks at what really listens: flags of an experiment may add addresses to the one that we give.
func (f *frame) onLoopback(v *variant) error {
	var open, unseen []string
	for _, s := range v.servers {
		count := 0
		for _, p := range proc.Processes() {
			if p.Session == s.process.Pid {
				for _, at := range proc.Listeners(p.PID) {
					count++
					if !at.Addr().IsLoopback() {
						open = append(open, at.String())
					}
				}
			}
		}
		if count == 0 {
			unseen = append(unseen, s.role)
		}
	}
	c := record.Check{Check: "listens_on_loopback", Phase: v.phase.Phase, Expected: 0, Actual: float64(len(open)), OK: len(open)+len(unseen) == 0}
	c.Message = fmt.Sprintf("%s listens for others, at %s: take the flag that says so out of the experiment", v.Name, strings.Join(open, " and "))
	if len(open) == 0 {
		c.Message = fmt.Sprintf("could not be checked: no process of %s's %s is seen to listen", v.Name, strings.Join(unseen, " and "))
	}
	return f.check(v, c)
}

// sameProcess checks that who answers is who answered when the servers were started.
func (f *frame) sameProcess(v *variant) error {
	for _, s := range v.servers {
		now := f.listener(s)
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
			return 0, faultf("the %s (pid %d) had to be killed: it did not stop within %v; %s", s.role, s.process.Pid, patience, lastWords(s.log))
		}
	}
	seconds = time.Since(begin).Seconds()
	for _, s := range v.servers {
		if err := f.quietLog(v, s.log); err != nil {
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
		said, err := f.ask(ctx, v, &server{role: c.Role}, record.Seconds(f.Plan.Watchdog.StopS), verb)
		if err == nil {
			err = take(c.Role, said)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
