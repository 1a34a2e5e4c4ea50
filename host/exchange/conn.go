package exchange

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// quietFor is how long a connection may be idle before it is looked at: no server closes one sooner.
const quietFor = time.Second

// Conn is one connection to one server, kept open. Two goroutines must not use it at once. net/http's client hands
// each request to two goroutines and back, which is noise on a pinned CPU. Here the goroutine that measures the time
// writes and reads itself.
type Conn struct {
	host, prefix string
	timeout      time.Duration
	socket       net.Conn
	reader       *bufio.Reader
	quiet        time.Time // since then nothing was sent over the socket
	forget       func() bool
	request      []byte
	body         []byte // of the last answer: valid until the next one
	ns           int64  // from before the request's first byte to after the last byte of its answer
}

// Dial connects; the timeout is for one operation. If it fails, the first operation connects again.
func Dial(ctx context.Context, address string, timeout time.Duration) (*Conn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of the form http://HOST:PORT", address)
	}
	c := &Conn{host: u.Host, prefix: strings.TrimSuffix(u.Path, "/"), timeout: timeout,
		reader: bufio.NewReaderSize(nil, 1<<16)}
	_ = c.connect(ctx)
	return c, nil
}

func (c *Conn) connect(ctx context.Context) error {
	if c.socket != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: c.timeout}
	socket, err := dialer.DialContext(ctx, "tcp", c.host)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", c.host, plain(err))
	}
	c.socket, c.quiet = socket, time.Now()
	// The end of ctx wakes a goroutine that waits for an answer.
	c.forget = context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	c.reader.Reset(socket)
	return nil
}

func (c *Conn) Close() {
	if c.socket != nil {
		c.forget()
		c.socket.Close()
		c.socket = nil
	}
}

// Do sends one operation, measures its time (c.ns), and returns the body of its answer, valid until the next
// one. Any status but 200, or 2xx for a batch, is an error with the start of the answer's text.
func (c *Conn) Do(ctx context.Context, o *Operation) ([]byte, error) {
	// No Accept-Encoding: how fast a server packs its answers is not compared.
	r := fmt.Appendf(c.request[:0], "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tsduel\r\n",
		o.Method, c.prefix, o.Path, c.host)
	if len(o.Body) > 0 {
		r = fmt.Appendf(r, "Content-Length: %d\r\n", len(o.Body))
	}
	c.request = append(append(r, "\r\n"...), o.Body...)

	if c.closedByServer() {
		c.Close()
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

// closedByServer says whether the server has closed a connection over which nothing was sent for a while.
func (c *Conn) closedByServer() (closed bool) {
	if c.socket == nil || time.Since(c.quiet) < quietFor {
		return false
	}
	raw, err := c.socket.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	// Not Read, which fails once the last operation's deadline is over.
	err = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = !errors.Is(err, unix.EAGAIN)
	})
	return closed || err != nil
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
	c.quiet = time.Now()
	c.ns = int64(c.quiet.Sub(begin))
	if err != nil || last {
		c.Close()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		err = fmt.Errorf("no answer within %s", c.timeout)
	}
	return status, err
}

func (c *Conn) receive() (status int, last bool, err error) {
	if _, err := c.reader.Peek(1); err != nil {
		return 0, true, plain(err)
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, true, fmt.Errorf("not an HTTP answer: %w", err)
	}
	body := bytes.NewBuffer(c.body[:0])
	body.Grow(max(1<<14, int(answer.ContentLength)+bytes.MinRead))
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return 0, true, fmt.Errorf("an answer that breaks off after %d bytes: %v", body.Len(), plain(err))
	}
	c.body = body.Bytes()
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
	return strings.ToValidUTF8(line, "?")
}
