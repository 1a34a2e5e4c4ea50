package machine

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"strconv"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// A machine that is lent listens at its private address, and does what a driver asks that knows the run's token. What a driver has
// started ends with its connection, and the lending ends where no driver comes for a while, however both have died.

// Tests wait less.
var (
	aliveEvery = 2 * time.Second  // a driver asks whether the machine is there
	silence    = 60 * time.Second // without a word: the other side is gone
	handshake  = 5 * time.Second
)

// service is what a driver may ask: Machine, and these.
type service struct {
	*Here
	release context.CancelFunc
}

// Alive answers with the time here, in ns since the epoch.
func (*service) Alive(_ None, now *int64) error {
	*now = time.Now().UnixNano()
	return nil
}

// Release ends the lending once the driver has hung up.
func (s *service) Release(_ None, _ *None) error {
	s.release()
	return nil
}

// Listen listens at the private address of a host, and at no other: whoever gets in may start programs there.
func Listen(lent *record.Lent, host string) (*net.TCPListener, error) {
	at, err := netip.ParseAddr(lent.Hosts[host])
	if err != nil {
		return nil, err
	}
	if !at.IsPrivate() && !at.IsLoopback() && !at.IsLinkLocalUnicast() {
		return nil, record.UserError("%s: %s is no private address, and nothing of ours listens at any other", host, at)
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, uint16(lent.Port))))
	if err != nil {
		err = record.UserError("%s cannot be lent at its address: %v; see which program has the port, or choose others with SET=\"host.port=...\"", host, err)
	}
	return l, err
}

// Lend serves one driver after the other until one releases the machine, ctx ends, or none has come for patience.
func Lend(ctx context.Context, l *net.TCPListener, token string, patience time.Duration, workload func(context.Context) (*record.Workload, error)) error {
	ctx, release := context.WithCancel(ctx)
	defer release()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	address, _, _ := net.SplitHostPort(l.Addr().String())
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
		if admit(conn, token) {
			serve(ctx, conn, address, release, workload)
			if err := proc.EndAll(); err != nil {
				return err
			}
			deadline = time.Now().Add(patience)
		}
		_ = conn.Close()
	}
	return nil
}

// admit reads a token, and says whether it is ours; it takes as long for any that is not.
func admit(conn net.Conn, token string) bool {
	_ = conn.SetDeadline(time.Now().Add(handshake))
	said := make([]byte, len(token))
	if _, err := io.ReadFull(conn, said); err != nil || len(token) == 0 || subtle.ConstantTimeCompare(said, []byte(token)) != 1 {
		return false
	}
	_, err := conn.Write([]byte{'y'})
	return err == nil && conn.SetDeadline(time.Time{}) == nil
}

func serve(ctx context.Context, conn net.Conn, address string, release context.CancelFunc, workload func(context.Context) (*record.Workload, error)) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	here := NewHere(ctx, address)
	here.workload = workload
	server := rpc.NewServer()
	if err := server.RegisterName("Machine", &service{here, release}); err != nil {
		panic(err) // its methods are ours
	}
	// In JSON, in which a figure that is 0 is not the same as none.
	server.ServeCodec(jsonrpc.NewServerCodec(talking{conn, hangUp}))
}

// talking is a connection on which the other side says something now and then; over is called when it does so no more.
type talking struct {
	net.Conn
	over func()
}

func (t talking) Read(p []byte) (n int, err error) {
	if err = t.SetReadDeadline(time.Now().Add(silence)); err == nil {
		n, err = t.Conn.Read(p)
	}
	if err != nil {
		t.over()
	}
	return n, err
}

// There is another machine, lent to us.
type There struct {
	Host string // its name
	rpc  *rpc.Client
	ctx  context.Context
	lose context.CancelCauseFunc
}

// Borrow reaches a machine that is lent; ctx ends with a sentence when it is lost.
func Borrow(ctx context.Context, lent *record.Lent, host string) (*There, context.Context, error) {
	at := net.JoinHostPort(lent.Hosts[host], strconv.Itoa(lent.Port))
	failed := func(err error) error {
		return record.FailedError("%s, which is to run components, cannot be reached at %s: %v; once it is up again, the same command with RUN= goes on", host, at, err)
	}
	conn, err := (&net.Dialer{Timeout: handshake}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, ctx, failed(err)
	}
	_ = conn.SetDeadline(time.Now().Add(handshake + silence)) // it may still end what another driver has left
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if _, err = conn.Write([]byte(lent.Token)); err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		_ = conn.Close()
		return nil, ctx, failed(err)
	}
	bounded, lose := context.WithCancelCause(ctx)
	t := &There{host, jsonrpc.NewClient(talking{conn, func() {}}), bounded, lose}
	go func() {
		clock := time.NewTicker(aliveEvery)
		defer clock.Stop()
		for {
			select {
			case <-bounded.Done():
				_ = t.rpc.Close()
				return
			case <-clock.C:
				_ = t.ask("Alive", None{}, new(int64))
			}
		}
	}()
	return t, bounded, nil
}

// Reach makes sure that the machine is there: what has just failed may be the way to it. It returns within silence.
func (t *There) Reach() error { return t.ask("Alive", None{}, new(int64)) }

// HangUp ends what we have started there.
func (t *There) HangUp() {
	t.lose(context.Canceled)
	_ = t.rpc.Close()
}

// Release ends the lending, too.
func (t *There) Release() {
	_ = t.ask("Release", None{}, &None{}) // it may hang up before it answers
	t.HangUp()
}

// Clock measures how long an answer takes, and by how much the clock there is ahead of ours, both in seconds: of so many
// questions the quickest (as NTP does it, RFC 5905: the offset is known to half of that).
func (t *There) Clock(questions int) (roundTrip, ahead float64, err error) {
	for range questions {
		var there int64
		asked := time.Now()
		if err := t.ask("Alive", None{}, &there); err != nil {
			return 0, 0, err
		}
		if took := time.Since(asked); roundTrip == 0 || took.Seconds() < roundTrip {
			roundTrip = took.Seconds()
			ahead = float64(there-asked.UnixNano())/1e9 - roundTrip/2
		}
	}
	return roundTrip, ahead, nil
}

func (t *There) ask(what string, args, reply any) error {
	call := t.rpc.Go("Machine."+what, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
	var refused rpc.ServerError
	if call.Error == nil || errors.As(call.Error, &refused) {
		if call.Error != nil {
			return fmt.Errorf("%s: %w", t.Host, call.Error)
		}
		return nil
	}
	// One of many that were under way: the first says why.
	t.lose(record.FailedError("%s does not answer any more (%v); what it ran was lost with it, and finished blocks are kept: once it is up again, the same command with RUN= goes on", t.Host, call.Error))
	return context.Cause(t.ctx)
}
