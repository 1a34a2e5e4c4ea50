package exchange

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

// canned is a connection over which the same answer comes again and again.
type canned struct {
	net.Conn
	answer, rest string
}

func (c *canned) Read(p []byte) (int, error) {
	if c.rest == "" {
		c.rest = c.answer
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// What an answer costs beside its system calls: it is on the clock.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{100, 8 << 10, 2 << 20} {
		for _, chunked := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/chunked=%t", size, chunked), func(b *testing.B) {
				answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
				if chunked {
					answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
					for left := size; left > 0; left -= 4096 {
						n := min(left, 4096)
						answer += fmt.Sprintf("%x\r\n%s\r\n", n, strings.Repeat("x", n))
					}
					answer += "0\r\n\r\n"
				}
				c := &Conn{socket: &canned{answer: answer}, room: NewRoom(1), reader: bufio.NewReaderSize(nil, 1<<16)}
				c.reader.Reset(incoming{c})
				b.ReportAllocs()
				for b.Loop() {
					c.Release()
					if _, _, err := c.receive(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
