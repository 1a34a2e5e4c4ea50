// Package scrape reads and keeps the counters that servers give at /metrics.
package scrape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"tsduel/host/bound"
)

// Timeout bounds a request whose ctx has no deadline. Tests set less.
var Timeout = 10 * time.Second

// client uses no proxy, follows no redirect, and keeps no connections, since servers come and go. It asks for plain
// text: a server would pack its answer within the measurement.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: bound.Headers,
		DialContext: (&net.Dialer{Timeout: Timeout}).DialContext}}

// Fetch gets a body. Any status but 2xx is an error that quotes the body. It tries three times, since a busy
// server may reset a connection before it answers.
func Fetch(ctx context.Context, url string) (body []byte, err error) {
	for range 3 {
		if body, err = fetch(ctx, url); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			return body, err
		}
	}
	return body, err
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	url = request.URL.Redacted()
	answer, err := client.Do(request)
	if err != nil && strings.Contains(err.Error(), "response headers exceeded") { // net/http has no type for it
		return nil, bound.More(bound.Headers, "GET "+url+": an answer with headers")
	} else if err != nil {
		return nil, err // it names the method and the URL
	}
	defer answer.Body.Close()
	if answer.ContentLength > bound.Counters {
		return nil, bound.More(bound.Counters, "GET "+url+": an answer")
	}
	body, err := bound.Read(answer.Body, bound.Counters, "GET "+url+": an answer")
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("GET %s: HTTP status %d: %s", url, answer.StatusCode, OneLine(string(body)))
	}
	return body, err
}

// OneLine makes one line of at most 400 bytes of a text, without control characters.
func OneLine(text string) string {
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	return strings.ToValidUTF8(line[:min(len(line), 400)], "")
}

const nameMost = 4 << 10

var noName = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// Expvar makes exposition text of Go's expvar JSON. Each number is a sample, named by its path of keys joined
// by _. A number in an object of InfluxDB's form {"name": N, "tags": {T: V}, "values": {K: NUMBER}} is the
// sample N_K{T="V"}.
func Expvar(body []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // keeps all digits of counters beyond 2^53
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("no expvar JSON: %w: %s", err, OneLine(string(body)))
	}
	var text bytes.Buffer
	var much error
	var write func(name, labels string, value any)
	write = func(name, labels string, value any) {
		if len(name) > nameMost { // each object in another has the names of all around it
			much = bound.Theirs("expvar JSON with a name of more than 4 KiB, and tsduel reads no more")
		}
		if much != nil {
			return
		}
		switch value := value.(type) {
		case json.Number:
			if int64(text.Len()+len(name)+len(labels)) > bound.Counters { // a long name comes again with each of its numbers
				much = bound.More(bound.Counters, "expvar JSON whose names and numbers make a text")
				return
			}
			fmt.Fprintf(&text, "%s%s %s\n", noName.ReplaceAllString(name, "_"), labels, value)
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				write(name+"_"+key, labels, value[key])
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		object, _ := all[key].(map[string]any)
		name, named := object["name"].(string)
		values, valued := object["values"].(map[string]any)
		if !named || !valued {
			write(key, "", all[key])
			continue
		}
		tags, _ := object["tags"].(map[string]any)
		var labels []string
		for _, tag := range slices.Sorted(maps.Keys(tags)) {
			labels = append(labels, fmt.Sprintf("%s=%q", noName.ReplaceAllString(tag, "_"), fmt.Sprint(tags[tag])))
		}
		joined := ""
		if labels != nil {
			joined = "{" + strings.Join(labels, ",") + "}"
		}
		write(name, joined, values)
	}
	return text.Bytes(), much
}
