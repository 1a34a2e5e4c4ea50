package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Fields of an event; numbers stay numbers. Strings are cut at 1,500 bytes, so that a line is one write of at most 4,096.
type Fields map[string]any

const (
	longestField  = 1500
	longestLine   = 4096
	progressEvery = 2 * time.Second // often enough to see it move
)

// Events is what a run says of itself as it goes: raw/events.jsonl, run.log, and plain lines on stdout. Safe for concurrent use;
// what cannot be written is no reason to end.
type Events struct {
	runDir string
	quiet  bool
	mutex  sync.Mutex
	next   time.Time
	Now    func() time.Time // tests have a clock of their own
}

// NewEvents of a run; quiet where a screen shows the events and lines are for run.log alone.
func NewEvents(runDir string, quiet bool) *Events {
	return &Events{runDir: runDir, quiet: quiet, Now: time.Now}
}

// Emit writes an event, and its plain line where it has one.
func (e *Events) Emit(name string, fields Fields) {
	now := e.Now()
	event := maps.Clone(fields)
	if event == nil {
		event = Fields{}
	}
	for key, value := range event {
		if s, ok := value.(string); ok && len(s) > longestField {
			event[key] = strings.ToValidUTF8(s[:longestField], "")
		}
	}
	e.append(name, now, event)
	if text := Line(name, event); text != "" {
		e.say(now, level(name, event), text)
	}
}

// Progress of a phase, at most every two seconds; cheap enough for a phase that is timed.
func (e *Events) Progress(phase string, done, total int64) {
	now := e.Now()
	e.mutex.Lock()
	due := !now.Before(e.next)
	if due {
		e.next = now.Add(progressEvery)
	}
	e.mutex.Unlock()
	if due {
		e.append("progress", now, Fields{"phase": phase, "done": done, "total": total})
	}
}

// PhaseStart tells that a phase of a block begins.
func (e *Events) PhaseStart(block int, p Phase) {
	e.Emit("phase-start", Fields{"block": block, "part": p.Part, "variant": p.Variant, "phase": p.Phase, "query_type": p.QueryType})
}

// PhaseEnd tells of a phase that is over.
func (e *Events) PhaseEnd(block int, p Phase) {
	fields := PhaseFields(p)
	fields["block"] = block
	e.Emit("phase-end", fields)
}

// PhaseFields are those of an event phase-end, without a block.
func PhaseFields(p Phase) Fields {
	seconds := p.End - p.Begin
	fields := Fields{"part": p.Part, "variant": p.Variant, "phase": p.Phase, "query_type": p.QueryType, "exit": p.Exit,
		"seconds": round(seconds, 1), "count": p.Count}
	if rateUnits[p.Phase] != "" && p.Count > 0 && seconds > 0 {
		fields["rate"] = round(float64(p.Count)/seconds, 1)
	}
	return fields
}

// Note is a remark on a block, on a variant and a query type of it where they are not empty.
func (e *Events) Note(block int, variant, queryType, message string) {
	fields := Fields{"block": block, "message": message}
	for key, value := range map[string]string{"variant": variant, "query_type": queryType} {
		if value != "" {
			fields[key] = value
		}
	}
	e.Emit("note", fields)
}

// Log writes a line of run.log, which all stages of a run share. Levels: INFO, WARNING, ERROR.
func (e *Events) Log(level, text string) {
	line := fmt.Sprintf("%s %-7s tsduel-host: %s\n", e.Now().UTC().Format(time.RFC3339), level, printable(text))
	e.appendTo(filepath.Join(e.runDir, "run.log"), []byte(line))
}

// Complain says why a run ends, on stderr and in run.log.
func (e *Events) Complain(sentence string) {
	e.Log("ERROR", sentence)
	fmt.Fprintf(os.Stderr, "tsduel: %s\n", sentence)
}

func (e *Events) say(now time.Time, level, text string) {
	e.Log(level, text)
	if !e.quiet {
		fmt.Printf("%s %s\n", now.UTC().Format("15:04:05"), printable(text))
	}
}

func (e *Events) append(name string, now time.Time, fields Fields) {
	line := fmt.Appendf(nil, `{"t":%.6f,"event":%q`, float64(now.UnixMicro())/1e6, name)
	rest, err := json.Marshal(fields)
	if err == nil && len(rest) > 2 {
		line = append(append(line, ','), rest[1:]...)
	} else {
		line = append(line, '}')
	}
	if len(line) >= longestLine { // of several long texts, or characters that JSON writes as six
		message, _ := fields["message"].(string)
		short := Fields{"message": strings.ToValidUTF8(message[:min(len(message), 500)], "")}
		for _, key := range []string{"block", "kind", "status", "run", "code"} {
			if value, ok := fields[key]; ok {
				short[key] = value
			}
		}
		e.append(name, now, short)
		return
	}
	e.appendTo(filepath.Join(e.runDir, "raw", "events.jsonl"), append(line, '\n'))
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
