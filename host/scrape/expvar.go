package scrape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var noName = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// Expvar makes exposition text of Go's expvar JSON: a number is a sample, named by the keys that lead to it. An object of
// InfluxDB's form {"name": N, "tags": {T: V}, "values": {K: NUMBER}} is N_K{T="V"}. What is no number has no sample.
func Expvar(body []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // counters beyond 2^53 keep their digits
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("no expvar JSON: %w: %s", err, OneLine(string(body)))
	}
	var text bytes.Buffer
	var write func(name, labels string, value any)
	write = func(name, labels string, value any) {
		switch value := value.(type) {
		case json.Number:
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
	return text.Bytes(), nil
}
