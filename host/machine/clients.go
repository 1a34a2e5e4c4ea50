package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// Client is a command of TSBS at work: it loads, or sends queries.
type Client struct {
	*proc.Process
	Began time.Time
	fed   chan error // gets how its stdin was fed
}

// StartClient starts a client. Out and complaints are files for its stdout and stderr; feed is a packed file for its
// stdin, or another file, which it reads itself.
func StartClient(c Command, feed, out, complaints string) (client *Client, err error) {
	stdout, noOut := os.Create(out)
	stderr, noErr := os.Create(complaints)
	client = &Client{fed: make(chan error, 1)}
	stdin, noFeed := client.unpacked(feed)
	defer func() { _, _, _ = stdout.Close(), stderr.Close(), stdin.Close() }() // the command has its own
	if err := errors.Join(noOut, noErr, noFeed); err != nil {
		return nil, err
	}
	client.Began = time.Now()
	client.Process, err = execute(c, stdin, stdout, stderr, complaints)
	return client, err
}

// Result waits for the end of the client, and ends what it has left.
func (c *Client) Result(ctx context.Context) (exit proc.Exit, err error) {
	if exit, err = c.Wait(ctx); err == nil {
		err = errors.Join(c.Kill(), <-c.fed)
	}
	return exit, err
}

// unpacked unpacks FILE.zst into a pipe, which ends with its reader. For other files it is nil.
func (c *Client) unpacked(path string) (*os.File, error) {
	if !strings.HasSuffix(path, ".zst") {
		c.fed <- nil
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	unpack, err := zstd.NewReader(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	feed, in, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	go record.Caught(func() {
		_, err := io.Copy(in, unpack)
		unpack.Close()
		_, _ = file.Close(), in.Close()
		if errors.Is(err, unix.EPIPE) {
			err = nil // the loader has ended, and its output says why
		} else if err != nil {
			err = fmt.Errorf("unpack %s: %w", path, err)
		}
		c.fed <- err
	})()
	return feed, nil
}
