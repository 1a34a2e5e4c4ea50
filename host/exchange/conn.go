package exchange

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/bound"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// quietFor is how long a connection may be idle before it is looked at: no server closes one sooner.
const quietFor = time.Second

// Room bounds what all connections to one server hold at once of its answers.
type Room struct {
	left atomic.Int64 // bytes
	keep int64        // a larger buffer is not kept for the next answer
}

// NewRoom of so many answers.
func NewRoom(answers int) *Room {
	r := &Room{keep: 2 * bound.Answers / int64(max(1, answers))}
	r.clear()
	return r
}

func (r *Room) clear() { r.left.Store(bound.Answers) }

// Conn is one connection to one server, kept open. Two goroutines must not use it at once. net/http's client hands
// each request to two goroutines and back, which is noise on a pinned CPU. Here the goroutine that measures the time
// writes and reads itself.
type Conn struct {
	host, prefix string
	login        string // a line of headers, if the address has a user
	timeout      time.Duration
	socket       net.Conn
	peek         func() error
	reader       *bufio.Reader
	looked       time.Time // when the connection was last known to be there, with nothing unread
	surplus      error     // what came behind the last answer
	forget       func() bool
	request      []byte
	body         []byte // of the last answer: valid until the next one
	ns           int64  // from before the request's first byte to after the last byte of its answer
	slowest      int64  // of all ns
	room         *Room
	taken        int64 // of the room
	left         int64 // how many bytes may come of these headers, or of this body
	broken       error // why no more have come: a parser may say only that a line is cut
}

// Dial connects; the timeout is for one operation. If it fails, the first operation connects again.
func Dial(ctx context.Context, address string, timeout time.Duration, room *Room) (*Conn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of the form http://HOST:PORT", address)
	}
	c := &Conn{host: u.Host, prefix: strings.TrimSuffix(u.Path, "/"), timeout: timeout, room: room,
		reader: bufio.NewReaderSize(nil, 1<<16)}
	if password, _ := u.User.Password(); u.User != nil {
		both := u.User.Username() + ":" + password
		c.login = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(both)) + "\r\n"
	}
	_ = c.connect(ctx)
	return c, nil
}

func (c *Conn) connect(ctx context.Context) error {
	if c.socket != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: c.timeout}
	host := c.host
	if _, _, noPort := net.SplitHostPort(host); noPort != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	socket, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", c.host, plain(err))
	}
	if c.peek, err = peeking(socket.(*net.TCPConn)); err != nil {
		return errors.Join(err, socket.Close())
	}
	c.socket, c.looked = socket, time.Now()
	// The end of ctx wakes a goroutine that waits for an answer.
	c.forget = context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	c.reader.Reset(incoming{c})
	return nil
}

// peeking returns a function that looks at what has come over a connection, and does not wait: EAGAIN if nothing
// has, io.EOF if the server has closed it.
func peeking(socket *net.TCPConn) (func() error, error) {
	raw, err := socket.SyscallConn()
	first, n, failed := make([]byte, 64), 0, error(nil)
	look := func(fd uintptr) {
		n, _, failed = unix.Recvfrom(int(fd), first, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}
	return func() error { // not Read, which fails once the last operation's deadline is over
		switch err := raw.Control(look); {
		case err != nil || failed != nil:
			return cmp.Or(err, failed)
		case n > 0:
			return behind(first[:n])
		}
		return io.EOF
	}, err
}

// behind is the error of bytes that nobody has asked for: they would be read as the next answer.
func behind(bytes []byte) error {
	return bound.Theirs(fmt.Sprintf("more than one answer came to one operation; behind it stands %q",
		bytes[:min(len(bytes), 64)]))
}

// incoming is the bytes of a connection, as many as may come.
type incoming struct{ *Conn }

func (c incoming) Read(p []byte) (int, error) {
	if c.left <= 0 || c.room.left.Load() < 0 {
		c.broken = errTooMuch
		return 0, c.broken
	}
	n, err := c.socket.Read(p[:min(int64(len(p)), c.left)])
	c.left, c.taken, c.broken = c.left-int64(n), c.taken+int64(n), err
	c.room.left.Add(-int64(n))
	return n, err
}

var errTooMuch = errors.New("too much")

func (c *Conn) Close() {
	if c.socket != nil {
		c.forget()
		c.socket.Close()
		c.socket = nil
	}
}

// Release says that the last answer is not needed any more.
func (c *Conn) Release() {
	c.room.left.Add(c.taken)
	if c.taken = 0; int64(cap(c.body)) > c.room.keep {
		c.body = nil
	}
}

// Quiet waits for a moment for what must not come behind the last answers of connections. A server that is always one
// answer ahead, to operations that follow at once, is seen only here.
func Quiet(ctx context.Context, all []*Conn) error {
	found := make([]error, len(all))
	var waiting sync.WaitGroup
	for i, c := range all {
		if c.socket != nil && ctx.Err() == nil {
			waiting.Go(record.Caught(func() { found[i] = c.quiet() }))
		}
	}
	waiting.Wait()
	return cmp.Or(found...)
}

// quietMost bounds the wait for an answer that nobody has asked for, which may take as long as the slowest.
const quietMost = time.Second

func (c *Conn) quiet() error {
	_ = c.socket.SetReadDeadline(time.Now().Add(min(quietMost, 10*time.Millisecond+2*time.Duration(c.slowest))))
	c.left = 1 << 16
	if _, err := c.reader.Peek(1); err == nil {
		more, _ := c.reader.Peek(c.reader.Buffered())
		c.surplus = behind(more)
	}
	return c.surplus
}

// Do is Send, after a Look. The look is not in the measured time.
func (c *Conn) Do(ctx context.Context, o *Operation) ([]byte, error) {
	c.Look()
	return c.Send(ctx, o)
}

// Look looks for what must not be there: bytes behind the last answer, which are an error of the next operation, or
// the end of the connection, which is made anew then. It is a system call, so an open loop looks while it waits.
func (c *Conn) Look() {
	if c.socket == nil {
		return
	}
	err := c.peek()
	if c.looked = time.Now(); errors.Is(err, unix.EAGAIN) {
		return
	}
	if _, more := errors.AsType[bound.Theirs](err); more {
		c.surplus = err
	}
	c.Close()
}

// Send sends one operation, measures its time (c.ns), and returns the body of its answer, valid until the next
// one. Any status but 200, or 2xx for a batch, is an error with the start of the answer's text.
func (c *Conn) Send(ctx context.Context, o *Operation) ([]byte, error) {
	// No Accept-Encoding: how fast a server packs its answers is not compared.
	r := fmt.Appendf(c.request[:0], "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tsduel\r\n%s",
		o.Method, c.prefix, o.Path, c.host, c.login)
	if len(o.Body) > 0 {
		r = fmt.Appendf(r, "Content-Length: %d\r\n", len(o.Body))
	}
	c.request = append(append(r, "\r\n"...), o.Body...)

	c.Release()
	if time.Since(c.looked) >= quietFor {
		c.Look()
	}
	if err := c.surplus; err != nil {
		c.surplus, c.ns = nil, 0
		return nil, err
	}
	kept := c.socket != nil
	status, err := c.once(ctx)
	gone := errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	if gone && kept && o.Lines == 0 {
		// The server has closed an idle connection just now. A query is sent again; a batch could be stored twice.
		status, err = c.once(ctx)
	}
	err = cmp.Or(ctx.Err(), err)
	if right := status == http.StatusOK || o.Lines > 0 && status/100 == 2; err == nil && !right {
		err = fmt.Errorf("HTTP %d: %s", status, firstLine(c.body))
	}
	return c.body, err
}

func (c *Conn) once(ctx context.Context) (status int, err error) {
	if err := c.connect(ctx); err != nil {
		return 0, err
	}
	if err := c.socket.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	if ctx.Err() != nil { // it may have ended just before the deadline was set
		return 0, ctx.Err()
	}
	begin := time.Now()
	var last bool
	if _, err = c.socket.Write(c.request); err == nil {
		status, last, err = c.receive()
	}
	c.ns = int64(time.Since(begin))
	c.slowest = max(c.slowest, c.ns)
	if err != nil || last {
		c.Close()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		err = fmt.Errorf("no answer within %s", c.timeout)
	}
	return status, err
}

func (c *Conn) receive() (status int, last bool, err error) {
	c.left, c.broken = bound.Headers, nil
	if _, err := c.reader.Peek(1); err != nil {
		return 0, true, plain(err)
	}
	answer, err := http.ReadResponse(c.reader, nil)
	for err == nil && answer.StatusCode/100 == 1 && answer.StatusCode != http.StatusSwitchingProtocols { // interim
		answer, err = http.ReadResponse(c.reader, nil)
	}
	late, _ := errors.AsType[net.Error](c.broken)
	switch {
	case err != nil && c.broken == errTooMuch:
		return 0, true, bound.More(bound.Headers, "an answer with headers")
	case err != nil && late != nil && late.Timeout():
		return 0, true, c.broken
	case err != nil:
		return 0, true, fmt.Errorf("not an HTTP answer: %w", err)
	case answer.ContentLength > bound.Answers:
		return 0, true, bound.More(bound.Answers, fmt.Sprintf("an answer (it announces %d bytes)", answer.ContentLength))
	}
	c.left = bound.Answers
	body := bytes.NewBuffer(c.body[:0])
	// A size of up to 1 MiB is believed: many answers then grow no buffer.
	body.Grow(int(min(max(1<<14, answer.ContentLength+bytes.MinRead), 1<<20)))
	if _, err := body.ReadFrom(answer.Body); errors.Is(err, errTooMuch) {
		return 0, true, bound.More(bound.Answers, "answers at once")
	} else if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return 0, true, err
	} else if err != nil {
		return 0, true, fmt.Errorf("an answer that breaks off after %d bytes: %v", body.Len(), plain(err))
	}
	c.body = body.Bytes()
	if n := c.reader.Buffered(); n > 0 {
		more, _ := c.reader.Peek(n)
		return 0, true, behind(more)
	}
	return answer.StatusCode, answer.Close, nil
}

// plain removes the addresses from a network error, which has them twice.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && !op.Timeout() {
		return op.Err
	}
	return err
}

func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body[:min(len(body), 300)])), "\n")
	return scrape.OneLine(strings.ToValidUTF8(line, "?"))
}
