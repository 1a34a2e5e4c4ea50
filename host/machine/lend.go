package machine

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tsduel/host/bound"
	"tsduel/host/openloop"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// A lent machine listens at its private address, and obeys a driver that has the run's key (secure.go). The
// components of a driver end with its connection. The lending ends when no driver has come for a while.

// Tests wait less.
var (
	aliveEvery = 2 * time.Second  // a driver asks whether the machine is there
	silence    = 60 * time.Second // the other side is lost after so long without a word
	handshake  = 5 * time.Second
)

// service is the methods that a driver may call: those of Machine, Alive and Release.
type service struct {
	*Here
	release context.CancelFunc
}

// Alive returns the time, in ns since the epoch.
func (*service) Alive(_ None, now *int64) error {
	*now = time.Now().UnixNano()
	return nil
}

// Release ends the lending once the driver has hung up.
func (s *service) Release(_ None, _ *None) error {
	s.release()
	return nil
}

// Listen listens at the private address of a host, and at no other: a driver may start any program here.
func Listen(lent *record.Lent, host string) (*net.TCPListener, error) {
	at, err := netip.ParseAddr(lent.Hosts[host])
	if err != nil {
		return nil, err
	}
	if !at.IsPrivate() && !at.IsLoopback() && !at.IsLinkLocalUnicast() {
		return nil, record.UserError("%s: %s is no private address, and tsduel listens at no other", host, at)
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, uint16(lent.Port))))
	if err != nil {
		err = record.UserError("%s cannot be lent at its address: %v; see which program has the port, "+
			"or choose others with SET=\"host.port=...\"", host, err)
	}
	return l, err
}

// Lend serves drivers in turn, until one releases the machine, ctx ends, or none has come for patience.
func Lend(ctx context.Context, l *net.TCPListener, token string, patience time.Duration,
	workload func(context.Context) (*record.Workload, error)) error {
	ctx, release := context.WithCancel(ctx)
	defer release()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	address, _, _ := net.SplitHostPort(l.Addr().String())
	config, err := secured(token, l.Addr().String(), driver)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ctx.Err() == nil; {
		if err := l.SetDeadline(deadline); err != nil {
			return err
		}
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return err
		}
		if conn := tls.Server(conn, config); admit(conn) {
			connected, hangUp := context.WithCancel(ctx)
			here := NewHere(connected, address)
			here.workload = workload
			serve(conn, &service{here, release}, hangUp)
			if err := EndAll(""); err != nil {
				return err
			}
			deadline = time.Now().Add(patience)
		}
		_ = conn.Close()
	}
	return nil
}

// admit says whether the driver has the key of the run, and tells the driver.
func admit(conn *tls.Conn) bool {
	_ = conn.SetDeadline(time.Now().Add(handshake))
	_, err := conn.Write([]byte{'y'}) // after the handshake
	return err == nil && conn.SetDeadline(time.Time{}) == nil
}

func serve(conn net.Conn, s *service, hangUp context.CancelFunc) {
	defer hangUp()
	defer context.AfterFunc(s.disks.ctx, func() { _ = conn.Close() })()
	server := rpc.NewServer()
	if err := server.RegisterName("Machine", s); err != nil {
		panic(err)
	}
	// Not in gob, which cannot tell a pointer to 0 from nil.
	server.ServeCodec(jsonrpc.NewServerCodec(watched{conn, hangUp, nil}))
}

// watched is a connection whose other side has to send something within silence. Else it calls lost. came counts what
// has come since the last whole reply, unless it is nil.
type watched struct {
	net.Conn
	lost func()
	came *atomic.Int64
}

func (w watched) Read(p []byte) (n int, err error) {
	if err = w.SetReadDeadline(time.Now().Add(silence)); err == nil {
		n, err = w.Conn.Read(p)
	}
	if w.came != nil && w.came.Add(int64(n)) > bound.Reply {
		n, err = 0, bound.More(bound.Reply, "a reply") // encoding/json forgets an error that comes with bytes
	}
	if err != nil {
		w.lost()
	}
	return n, err
}

// There is another machine, lent to this driver.
type There struct {
	programsThere
	disksThere
	conditionsThere
	clientsThere
	Host string // its name
	rpc  *rpc.Client
	ctx  context.Context
	lose context.CancelCauseFunc
	came atomic.Int64 // bytes since the last whole reply

	reaching sync.Mutex
	silent   time.Duration // the longest time to an answer of Reach
}

// Borrow connects to a lent machine. When the machine is lost, the returned ctx ends with a sentence as its
// cause.
func Borrow(ctx context.Context, lent *record.Lent, host string) (*There, context.Context, error) {
	at := net.JoinHostPort(lent.Hosts[host], strconv.Itoa(lent.Port))
	failed := func(err error) error {
		if isStranger(err) {
			return record.FailedError("what answers at %s is not %s, which was lent to this run to run components there (%v): "+
				"see which program has the port there, and end it; the same command with RUN= goes on", at, host, err)
		}
		return record.FailedError("%s, which is to run components, cannot be reached at %s: %v; "+
			"once it is up again, the same command with RUN= goes on", host, at, err)
	}
	config, err := secured(lent.Token, driver, at)
	if err != nil {
		return nil, ctx, err
	}
	plain, err := (&net.Dialer{Timeout: handshake}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, ctx, failed(err)
	}
	conn := tls.Client(plain, config)
	_ = conn.SetDeadline(time.Now().Add(handshake + silence)) // it may first have to end what another driver has left
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	_, err = io.ReadFull(conn, make([]byte, 1)) // after the handshake
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		_ = conn.Close()
		return nil, ctx, failed(err)
	}
	bounded, lose := context.WithCancelCause(ctx)
	t := &There{Host: host, ctx: bounded, lose: lose}
	t.rpc = jsonrpc.NewClient(watched{conn, func() {}, &t.came})
	t.programsThere, t.disksThere, t.conditionsThere, t.clientsThere = t.ask, t.ask, t.ask, t.ask
	go record.Caught(func() {
		for clock := time.Tick(aliveEvery); ; {
			select {
			case <-bounded.Done():
				_ = t.rpc.Close()
				return
			case <-clock:
				_ = t.Reach()
			}
		}
	})()
	return t, bounded, nil
}

// Reach checks that the machine answers. It returns within silence.
func (t *There) Reach() error {
	t.reaching.Lock()
	defer t.reaching.Unlock()
	sent := time.Now()
	err := t.ask("Alive", None{}, new(int64))
	t.silent = max(t.silent, time.Since(sent))
	return err
}

// Since is Since of the other machine, and how long that machine was silent since it was borrowed.
func (t *There) Since(a Span, r *record.Noise) error {
	if err := errors.Join(t.Reach(), t.ask("Since", a, r)); err != nil {
		return err
	}
	t.reaching.Lock()
	defer t.reaching.Unlock()
	r.SilentS = new(t.silent.Seconds())
	return nil
}

// HangUp ends what this driver has started on the machine.
func (t *There) HangUp() {
	t.lose(context.Canceled)
	_ = t.rpc.Close()
}

func (t *There) Release() {
	_ = t.ask("Release", None{}, &None{}) // the machine may hang up before it answers
	t.HangUp()
}

// Clock returns the shortest round trip of some questions, and by how much the clock there is ahead of this
// one, in seconds. The error of ahead is half the round trip at most (as in NTP, RFC 5905).
func (t *There) Clock(questions int) (roundTrip, ahead float64, err error) {
	for range questions {
		var theirs int64
		sent := time.Now()
		if err := t.ask("Alive", None{}, &theirs); err != nil {
			return 0, 0, err
		}
		if took := time.Since(sent); roundTrip == 0 || took.Seconds() < roundTrip {
			roundTrip = took.Seconds()
			ahead = float64(theirs-sent.UnixNano())/1e9 - roundTrip/2
		}
	}
	return roundTrip, ahead, nil
}

func (t *There) ask(method string, args, reply any) error {
	packed, err := json.Marshal(args)
	if err != nil {
		return err
	}
	var answer Answer
	call := t.rpc.Go("Machine.Call", Call{method, packed}, &answer, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		t.came.Store(0)
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
	if call.Error == nil {
		return answer.unpack(t.Host, reply)
	}
	// All calls under way fail. The cause is the first one's error.
	t.lose(record.FailedError("%s does not answer any more (%v); what it ran was lost with it, and finished blocks "+
		"are kept: once it is up again, the same command with RUN= goes on", t.Host, call.Error))
	return context.Cause(t.ctx)
}

// There's methods of Machine ask for those of Here on the other machine.
type (
	programsThere   func(method string, args, reply any) error
	disksThere      func(method string, args, reply any) error
	conditionsThere func(method string, args, reply any) error
	clientsThere    func(method string, args, reply any) error
)

func (ask programsThere) FreePort(a Ports, r *int) error           { return ask("FreePort", a, r) }
func (ask programsThere) Place(a Pair, r *string) error            { return ask("Place", a, r) }
func (ask programsThere) Placed(a Program, r *record.Placed) error { return ask("Placed", a, r) }
func (ask programsThere) Start(a Command, r *int) error            { return ask("Start", a, r) }
func (ask programsThere) Await(a int, r *proc.Exit) error          { return ask("Await", a, r) }
func (ask programsThere) Kill(a int, r *None) error                { return ask("Kill", a, r) }
func (ask programsThere) Run(a Command, r *Output) error           { return ask("Run", a, r) }
func (ask programsThere) Listeners(a int, r *map[int][]netip.AddrPort) error {
	return ask("Listeners", a, r)
}
func (ask programsThere) CPU(a int, r *time.Duration) error      { return ask("CPU", a, r) }
func (ask programsThere) Counters(a int, r *proc.Counters) error { return ask("Counters", a, r) }
func (ask programsThere) Files(a int, r *proc.Files) error       { return ask("Files", a, r) }

func (ask disksThere) Prepare(a Directories, r *None) error        { return ask("Prepare", a, r) }
func (ask disksThere) Copy(a Copying, r *record.CopyRecord) error  { return ask("Copy", a, r) }
func (ask disksThere) ReadOnce(a Reading, r *int64) error          { return ask("ReadOnce", a, r) }
func (ask disksThere) Log(a Piece, r *[]byte) error                { return ask("Log", a, r) }
func (ask disksThere) Sync(a string, r *None) error                { return ask("Sync", a, r) }
func (ask disksThere) DropCaches(a string, r *None) error          { return ask("DropCaches", a, r) }
func (ask disksThere) Disk(a string, r *Disk) error                { return ask("Disk", a, r) }
func (ask disksThere) Sums(a []string, r *map[string]string) error { return ask("Sums", a, r) }

func (ask conditionsThere) Look(a []int, r *int) error               { return ask("Look", a, r) }
func (ask conditionsThere) Canary(a string, r *record.Canary) error  { return ask("Canary", a, r) }
func (ask conditionsThere) OOMKills(a None, r *float64) error        { return ask("OOMKills", a, r) }
func (ask conditionsThere) Describe(a string, r *record.Facts) error { return ask("Describe", a, r) }

func (ask clientsThere) Workload(a None, r *record.Workload) error { return ask("Workload", a, r) }
func (ask clientsThere) Prime(a openloop.Job, r *int) error        { return ask("Prime", a, r) }
func (ask clientsThere) Loop(a Instant, r *Looped) error           { return ask("Loop", a, r) }
func (ask clientsThere) Hold(a Held, r *int) error                 { return ask("Hold", a, r) }
func (ask clientsThere) LetGo(a Instant, r *Ran) error             { return ask("LetGo", a, r) }

type Call struct {
	Method string
	Args   json.RawMessage
}

// Answer is what it returned. net/rpc keeps only the text of an error; Code is that of a record.Stop, else 0.
type Answer struct {
	Reply json.RawMessage
	Wrong string
	Code  int
}

func (s *service) Call(c Call, answer *Answer) (err error) {
	defer func() { // net/rpc would end the program
		if mistake := recover(); mistake != nil {
			debug.PrintStack()
			err = record.Defect(" in "+c.Method, mistake)
		}
	}()
	method := reflect.ValueOf(s).MethodByName(c.Method)
	if !method.IsValid() {
		return fmt.Errorf("there is no method %s here", c.Method)
	}
	args, reply := reflect.New(method.Type().In(0)), reflect.New(method.Type().In(1).Elem())
	if err := json.Unmarshal(c.Args, args.Interface()); err != nil {
		return err
	}
	if wrong, failed := method.Call([]reflect.Value{args.Elem(), reply})[0].Interface().(error); failed {
		answer.Wrong = wrong.Error()
		if stop, ok := errors.AsType[*record.Stop](wrong); ok {
			answer.Code = stop.Code
		}
	}
	answer.Reply, err = json.Marshal(reply.Interface())
	return err
}

func (a *Answer) unpack(host string, reply any) error {
	switch {
	case a.Code != 0:
		return &record.Stop{Code: a.Code, Message: host + ": " + a.Wrong}
	case a.Wrong != "":
		return fmt.Errorf("%s: %s", host, a.Wrong)
	}
	return json.Unmarshal(a.Reply, reply)
}
