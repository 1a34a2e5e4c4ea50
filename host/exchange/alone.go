package exchange

import (
	"context"
	"errors"
	"io"
	"time"
)

// Conn is one connection to one server, kept open, for who asks it alone. Not for two goroutines at once.
type Conn struct{ *conn }

// Dial connects; timeout is of one operation. That nobody listens is said by the first operation, which connects again.
func Dial(ctx context.Context, url string, timeout time.Duration) (Conn, error) {
	c, err := newConn(url, timeout)
	if err == nil {
		_ = c.connect(ctx)
	}
	return Conn{c}, err
}

// Do sends an operation and returns the body of its answer, valid until the next one. An answer that is not `success` is an error.
func (c Conn) Do(ctx context.Context, o *Operation, success func(status int) bool) ([]byte, error) {
	err := c.do(ctx, o, success)
	return c.body, err
}

// Close ends the connection.
func (c Conn) Close() { c.close() }

// Empty says whether an answer of a format has no data in it.
func Empty(answers string) func(body []byte) (bool, error) { return formats[answers].empty }

// Around gives the queries of a file from one on, and again from its first one behind its last; see OpenQueries.
func Around(path string, first int, arguments string) (Source, error) {
	of, err := OpenQueries(path, first, arguments)
	return &around{of, path, arguments}, err
}

type around struct {
	Source
	path, arguments string
}

func (a *around) Next() (Operation, error) {
	operation, err := a.Source.Next()
	if !errors.Is(err, io.EOF) {
		return operation, err
	}
	again, err := OpenQueries(a.path, 0, a.arguments)
	if err != nil {
		return operation, err
	}
	_, a.Source = a.Close(), again
	return a.Source.Next()
}

// Turns gives one operation of each source in turn, and ends with the first that does.
func Turns(of ...Source) Source { return &turns{of: of} }

type turns struct {
	of []Source
	at int
}

func (t *turns) Next() (Operation, error) {
	source := t.of[t.at%len(t.of)]
	t.at++
	return source.Next()
}

func (t *turns) Close() (err error) {
	for _, source := range t.of {
		if failed := source.Close(); err == nil {
			err = failed
		}
	}
	return err
}

// Every gives every step-th operation of a source, without the first ones.
func Every(of Source, first, step int) Source { return &every{of, first, step} }

type every struct {
	Source
	skip, step int
}

func (e *every) Next() (Operation, error) {
	for range e.skip {
		if operation, err := e.Source.Next(); err != nil {
			return operation, err
		}
	}
	e.skip = e.step - 1
	return e.Source.Next()
}
