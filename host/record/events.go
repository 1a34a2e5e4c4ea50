package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

// Fields of an event. Strings are cut at 1,500 bytes, so that a line is one write of at most 4,096.
type Fields map[string]any

const (
	longestField  = 1500
	longestLine   = 4096
	progressEvery = 2 * time.Second
)

// Events writes raw/HOST/events.jsonl, run.log, and plain lines on stdout. It is safe for concurrent use, and
// ignores errors of writing: they are no reason to end a run.
type Events struct {
	runDir, raw  string
	quiet        bool
	hidden       *Hidden
	mutex        sync.Mutex
	lastProgress atomic.Int64 // ns since the epoch
}

// NewEvents of a run and its directory raw/HOST; quiet: nothing on stdout, since a screen shows the events.
func NewEvents(runDir, raw string, quiet bool) *Events {
	return &Events{runDir: runDir, raw: raw, quiet: quiet}
}

// Hide has the events written without secret values from now on.
func (e *Events) Hide(secrets *Hidden) { e.hidden = secrets }

func RawDir(runDir, host string) string { return filepath.Join(runDir, "raw", host) }

// Emit writes an event with its plain line, if it has one.
func (e *Events) Emit(name string, fields Fields) {
	now, event := time.Now(), maps.Clone(fields)
	for key, value := range event {
		s, ok := value.(string)
		if ok && key == "message" {
			s = e.hidden.Mask(s)
			event[key] = s
		}
		if ok && len(s) > longestField {
			event[key] = strings.ToValidUTF8(s[:longestField], "")
		}
	}
	level, text := plainLine(name, event)
	if text != "" {
		event["line"] = strings.ToValidUTF8(text[:min(len(text), longestField)], "")
	}
	e.append(name, now, event)
	if text != "" {
		e.Log(level, text)
		if !e.quiet {
			fmt.Printf("%s %s\n", now.UTC().Format("15:04:05"), printable(text))
		}
	}
}

// Progress of a phase, at most every two seconds; it is cheap enough for a timed phase.
func (e *Events) Progress(phase string, done, total int64) {
	now := time.Now()
	last := e.lastProgress.Load()
	if now.UnixNano() >= last+int64(progressEvery) && e.lastProgress.CompareAndSwap(last, now.UnixNano()) {
		e.append("progress", now, Fields{"phase": phase, "done": done, "total": total})
	}
}

func (e *Events) PhaseStart(block int, p Phase) {
	e.Emit("phase-start", Fields{"block": block, "part": p.Part, "variant": p.Variant, "phase": p.Phase,
		"query_type": p.QueryType})
}

func (e *Events) PhaseEnd(block int, p Phase) {
	fields := PhaseFields(p)
	fields["block"] = block
	e.Emit("phase-end", fields)
}

// PhaseFields returns the fields of an event phase-end, without the block.
func PhaseFields(p Phase) Fields {
	seconds := p.End - p.Begin
	fields := Fields{"part": p.Part, "variant": p.Variant, "phase": p.Phase, "query_type": p.QueryType, "exit": p.Exit,
		"seconds": toTenths(seconds), "count": p.Count}
	if rateUnits[p.Phase] != "" && p.Count > 0 && seconds > 0 {
		fields["rate"] = toTenths(float64(p.Count) / seconds)
	}
	return fields
}

// Note is a remark on a block, or on its variant and query type if they are not empty.
func (e *Events) Note(block int, variant, queryType, message string) {
	e.Emit("note", Fields{"block": block, "variant": variant, "query_type": queryType, "message": message})
}

// Log writes a line of run.log, which all stages of a run share. Levels: INFO, WARNING, ERROR.
func (e *Events) Log(level, text string) {
	line := fmt.Sprintf("%s %-7s tsduel-host: %s\n", time.Now().UTC().Format(time.RFC3339), level,
		printable(e.hidden.Mask(text)))
	e.appendTo(filepath.Join(e.runDir, "run.log"), []byte(line))
}

// Complain says why a run ends, on stderr and in run.log.
func (e *Events) Complain(sentence string) {
	sentence = e.hidden.Mask(sentence)
	e.Log("ERROR", sentence)
	fmt.Fprintf(os.Stderr, "tsduel: %s\n", sentence)
}

func (e *Events) append(name string, now time.Time, fields Fields) {
	line := fmt.Appendf(nil, `{"t":%.6f,"event":%q`, float64(now.UnixMicro())/1e6, name)
	rest, err := json.Marshal(fields)
	if err == nil && len(rest) > 2 {
		line = append(append(line, ','), rest[1:]...)
	} else {
		line = append(line, '}')
	}
	if len(line) >= longestLine { // several long texts, or characters that JSON writes as six
		short := Fields{}
		for _, key := range []string{"message", "line"} {
			text, _ := fields[key].(string)
			short[key] = strings.ToValidUTF8(text[:min(len(text), 300)], "")
		}
		for _, key := range []string{"block", "kind", "status", "run", "code"} {
			if value, ok := fields[key]; ok {
				short[key] = value
			}
		}
		e.append(name, now, short)
		return
	}
	e.appendTo(filepath.Join(e.raw, "events.jsonl"), append(line, '\n'))
}

func (e *Events) appendTo(path string, line []byte) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		_, _ = f.Write(line)
		_ = f.Close()
	}
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

var rateUnits = map[string]string{"load": "samples/s", "ingest": "samples/s", "query": "queries/s", "data": "lines/s",
	"exchange": "exchanges/s", "before": "exchanges/s", "after": "exchanges/s", "mixed": "operations/s",
	"rung": "operations/s"}

// plainLine returns an event's line: its level, and its text, "" if the event only moves a progress bar.
func plainLine(name string, f Fields) (level, text string) {
	const info, warning, failed = "INFO", "WARNING", "ERROR"
	value := func(key string) string {
		if f[key] == nil {
			return ""
		}
		return fmt.Sprint(f[key])
	}
	fill := func(template string) string { return os.Expand(template, value) }
	block := ""
	if f["block"] != nil {
		block = fill("block ${block}")
	}
	switch name {
	case "run-start":
		text = fill("${run}: ${finished} of ${planned} blocks are finished")
		return info, text
	case "block-start":
		return info, fmt.Sprintf("%s begins (%s)", block, value("kind"))
	case "phase-end":
		side := cmp.Or(value("variant"), value("part")) // a phase of the duel has no variant
		text = words(block, side, value("phase"), value("query_type"))
		if number(f["exit"]) != 0 {
			return warning, fmt.Sprintf("%s ended with exit code %s after %.1f s", text, value("exit"), number(f["seconds"]))
		}
		text += fmt.Sprintf(" %.1f s", number(f["seconds"]))
		if rate := number(f["rate"]); rate > 0 {
			text += fmt.Sprintf(", %s %s", grouped(rate), rateUnits[value("phase")])
		}
		return info, text
	case "window":
		text = fmt.Sprintf("%s %s after %.2f h: memory %s, %.2f cores, disk %s, %s open files", block, value("variant"),
			number(f["elapsed_s"])/3600, Bytes(int64(number(f["rss_bytes"]))), number(f["cpu_cores"]),
			Bytes(int64(number(f["disk_bytes"]))), value("open_files"))
		if p99 := number(f["query_p99_ms"]); p99 > 0 {
			text += fmt.Sprintf(", p99 of queries %.1f ms", p99)
		}
		return info, text
	case "block-end":
		seconds := fmt.Sprintf("%.0f s", number(f["seconds"]))
		if failures, _ := f["failures"].([]Failure); value("status") != OK && len(failures) > 0 {
			first := failures[0]
			what := words("FAILED in", first.Variant, first.Phase, first.QueryType)
			return warning, fmt.Sprintf("%s %s after %s: %s", block, what, seconds, first.Message)
		}
		if value("void") != "" {
			return warning, block + " does not count: " + value("void")
		}
		return info, fmt.Sprintf("%s %s in %s", block, value("status"), seconds)
	case "block-replaced":
		return warning, block + fill(" does not count, spare block ${spare} is run instead: ${message}")
	case "note":
		if subject := words(block, value("variant"), value("query_type")); subject != "" {
			return warning, subject + ": " + value("message")
		}
		return warning, value("message")
	case "stop-requested":
		return info, "stop requested: " + block + " is finished first"
	case "run-end":
		switch value("status") {
		case OK:
			return info, "all blocks are run"
		case "interrupted":
			return warning, fill("${message}; finished blocks are kept. To go on: make ${kind} RUN=${run}")
		}
		return failed, "the run has stopped: " + value("message")
	}
	return info, ""
}

// grouped writes 1234567.8 as 1,234,568, and a number below 100 with one decimal.
func grouped(x float64) string {
	if x < 100 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func words(parts ...string) string {
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

func number(value any) float64 {
	switch x := value.(type) {
	case float64:
		return x
	case int:
		return float64(x)
	case int64:
		return float64(x)
	}
	return 0
}

func toTenths(x float64) float64 { return math.Round(x*10) / 10 }

// Bytes writes an amount, rounded down, like 1.3 GB.
func Bytes(count int64) string {
	size, units := float64(count), []string{"B", "kB", "MB", "GB", "TB"}
	for size >= 1000 && len(units) > 1 {
		size, units = size/1000, units[1:]
	}
	if units[0] == "B" || size >= 10 {
		return fmt.Sprintf("%d %s", int64(size), units[0])
	}
	return fmt.Sprintf("%.1f %s", math.Floor(size*10)/10, units[0])
}
