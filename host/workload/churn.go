package workload

import (
	"bytes"
	"io"
	"math"
	"strconv"

	"tsduel/host/record"
)

// churned renames hosts in Influx lines as series come and go: in epoch e, counted from the first line's window in steps of
// the rule, host h has the name of its generation floor(e x share + frac(h x golden ratio)), which begins at 0 with its own
// name. So every step replaces the rule's share of the hosts, spread over all of them, and the same ones in every file.
type churned struct {
	to         io.Writer
	rule       record.Churn
	start      int64 // ns since the epoch
	rest, text []byte
}

var hostTag = []byte("hostname=host_")

func (c *churned) Write(text []byte) (int, error) {
	c.rest = append(c.rest, text...)
	whole := bytes.LastIndexByte(c.rest, '\n') + 1
	c.text = c.text[:0]
	for line := range bytes.Lines(c.rest[:whole]) {
		c.text = c.rename(c.text, line)
	}
	c.rest = append(c.rest[:0], c.rest[whole:]...)
	_, err := c.to.Write(c.text)
	return len(text), err
}

func (c *churned) rename(text, line []byte) []byte {
	head, tail, _ := bytes.Cut(line, hostTag)
	length := bytes.IndexAny(tail, ", ")
	host, err := strconv.Atoi(string(tail[:max(length, 0)]))
	ns, wrong := strconv.ParseInt(string(bytes.TrimSpace(line[bytes.LastIndexByte(line, ' ')+1:])), 10, 64)
	if err != nil || wrong != nil {
		return append(text, line...) // not one of TSBS's lines: an error of its own, which is looked for behind us
	}
	at := len(head) + len(hostTag)
	epoch := math.Floor(float64(ns-c.start) / 1e9 / c.rule.EveryS)
	_, phase := math.Modf(float64(host) * math.Phi)
	generation := int64(math.Floor(epoch*c.rule.Pct/100 + phase))
	text = append(text, line[:at+length]...)
	if generation > 0 {
		text = strconv.AppendInt(append(text, '-'), generation, 10)
	}
	return append(text, line[at+length:]...)
}
