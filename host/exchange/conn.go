package exchange

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// conn is one connection to one side, kept open. net/http's client hands each request to two goroutines and back, which
// is noise on a CPU of one's own; here the goroutine that takes the time writes and reads itself.
type conn struct {
	host, prefix string
	timeout      time.Duration
	socket       net.Conn
	answers      *bufio.Reader
	used         bool // something was asked over this connection
	forget       func() bool
	request      []byte
	// The last answer: valid until the next one.
	body []byte
	ns   int64 // from before the request's first byte to after the answer's last
}

func newConn(address string, timeout time.Duration) (*conn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of the form http://HOST:PORT", address)
	}
	return &conn{host: u.Host, prefix: strings.TrimSuffix(u.Path, "/"), timeout: timeout, answers: bufio.NewReaderSize(nil, 1<<16)}, nil
}

func (c *conn) connect(ctx context.Context) error {
	if c.socket != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: c.timeout}
	socket, err := dialer.DialContext(ctx, "tcp", c.host)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", c.host, plain(err))
	}
	c.socket, c.used = socket, false
	c.forget = context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) }) // who waits for an answer is woken
	c.answers.Reset(socket)
	return nil
}

func (c *conn) close() {
	if c.socket != nil {
		c.forget()
		c.socket.Close()
		c.socket = nil
	}
}

// do sends one operation and takes its time; body and ns are set when it returns nil. An answer that is not `success` is
// an error with the start of its text.
func (c *conn) do(ctx context.Context, o *Operation, success func(status int) bool) error {
	r := append(c.request[:0], o.Method...)
	r = append(r, ' ')
	r = append(r, c.prefix...)
	r = append(r, o.Path...)
	r = append(r, " HTTP/1.1\r\nHost: "...)
	r = append(r, c.host...)
	r = append(r, "\r\nUser-Agent: tsduel\r\n"...) // no Accept-Encoding: packing answers is not what is compared
	if len(o.Body) > 0 {
		r = append(r, "Content-Length: "...)
		r = strconv.AppendInt(r, int64(len(o.Body)), 10)
		r = append(r, "\r\n"...)
	}
	c.request = append(append(r, "\r\n"...), o.Body...)

	fresh := !c.used
	status, err := c.once(ctx)
	if !fresh && o.Lines == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		// The server has given up an idle connection just now. A batch of data could be stored twice, a query can be asked again.
		status, err = c.once(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case !success(status):
		return fmt.Errorf("HTTP %d: %s", status, firstLine(c.body))
	}
	return nil
}

func (c *conn) once(ctx context.Context) (status int, err error) {
	if err := c.connect(ctx); err != nil {
		return 0, err
	}
	if err := c.socket.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	if ctx.Err() != nil { // just before the deadline was set anew
		return 0, ctx.Err()
	}
	begin := time.Now()
	var last bool
	if _, err = c.socket.Write(c.request); err == nil {
		status, last, err = c.receive()
	}
	c.ns = int64(time.Since(begin))
	c.used = true
	if err != nil || last {
		c.close()
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		err = fmt.Errorf("no answer within %s", c.timeout)
	}
	return status, err
}

func (c *conn) receive() (status int, last bool, err error) {
	if _, err := c.answers.Peek(1); err != nil {
		return 0, true, plain(err)
	}
	answer, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return 0, true, fmt.Errorf("not an HTTP answer: %w", err)
	}
	body := c.body[:0]
	if answer.ContentLength > int64(cap(body)) {
		body = make([]byte, 0, answer.ContentLength)
	}
	for {
		if len(body) == cap(body) && int64(len(body)) != answer.ContentLength {
			body = slices.Grow(body, max(1<<14, len(body)/2))
		}
		n, err := answer.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF || int64(len(body)) == answer.ContentLength {
			break
		}
		if err != nil {
			return 0, true, fmt.Errorf("an answer that breaks off after %d bytes: %v", len(body), plain(err))
		}
	}
	c.body = body
	return answer.StatusCode, answer.Close, nil
}

// plain leaves the addresses out of a network error, which names them twice.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && !op.Timeout() {
		return op.Err
	}
	return err
}

func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body[:min(len(body), 300)])), "\n")
	return strings.ToValidUTF8(line, "?")
}
