package record

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var rateUnits = map[string]string{"load": "samples/s", "ingest": "samples/s", "query": "queries/s", "data": "lines/s",
	"exchange": "exchanges/s", "before": "exchanges/s", "after": "exchanges/s", "mixed": "operations/s", "rung": "operations/s"}

// Line is an event as a plain line without its clock, empty for one that only moves a bar. tsduel/rounds/view/lines.py says the
// same; tests/golden/view-lines.txt holds both to it.
func Line(name string, f Fields) string {
	text := func(key string) string {
		if f[key] == nil {
			return ""
		}
		return fmt.Sprint(f[key])
	}
	switch name {
	case "run-start":
		cells := ""
		if n := number(f["cells"]); n > 1 {
			cells = fmt.Sprintf(", %.0f cells in turn", n)
		}
		return fmt.Sprintf("%s: %s of %s blocks are finished%s", text("run"), text("finished"), text("planned"), cells)
	case "block-start":
		return fmt.Sprintf("block %s begins (%s)", text("block"), words(text("kind"), text("cell")))
	case "phase-end":
		who := text("variant")
		if who == "" {
			who = text("part") // the duel, which is nobody's alone
		}
		what := words(blockOf(f), who, text("phase"), text("query_type"))
		seconds := fmt.Sprintf("%.1f s", number(f["seconds"]))
		if number(f["exit"]) != 0 {
			return fmt.Sprintf("%s ended with exit code %s after %s", what, text("exit"), seconds)
		}
		if rate := number(f["rate"]); rate > 0 {
			seconds += fmt.Sprintf(", %s %s", Grouped(rate), rateUnits[text("phase")])
		}
		return what + " " + seconds
	case "block-end":
		seconds := fmt.Sprintf("%.0f s", number(f["seconds"]))
		if failures, _ := f["failures"].([]Failure); text("status") != OK && len(failures) > 0 {
			first := failures[0]
			what := words("FAILED in", first.Variant, first.Phase, first.QueryType)
			return fmt.Sprintf("block %s %s after %s: %s", text("block"), what, seconds, first.Message)
		}
		if void := text("void"); void != "" {
			return fmt.Sprintf("block %s does not count: %s", text("block"), void)
		}
		return fmt.Sprintf("block %s %s in %s", text("block"), text("status"), seconds)
	case "block-replaced":
		return fmt.Sprintf("block %s does not count, spare block %s is run instead: %s", text("block"), text("spare"), text("message"))
	case "note":
		if of := words(blockOf(f), text("variant"), text("query_type")); of != "" {
			return of + ": " + text("message")
		}
		return text("message")
	case "stop-requested":
		if text("message") != "" {
			return text("message")
		}
		return fmt.Sprintf("stop requested: block %s is finished first", text("block"))
	case "run-end":
		switch text("status") {
		case OK:
			return "all blocks are run"
		case "interrupted":
			return fmt.Sprintf("%s; finished blocks are kept. To go on: make %s RUN=%s", text("message"), text("kind"), text("run"))
		}
		return "the run has stopped: " + text("message")
	}
	return ""
}

func level(name string, f Fields) string {
	if name == "run-end" && f["status"] == Failed {
		return "ERROR"
	}
	bad := map[string]bool{"phase-end": number(f["exit"]) != 0, "block-end": f["status"] != OK || (f["void"] != nil && f["void"] != ""),
		"block-replaced": true, "note": true, "run-end": f["status"] != OK}
	if bad[name] {
		return "WARNING"
	}
	return "INFO"
}

// Grouped writes a number with its thousands apart: whole from 100 on, else with one decimal.
func Grouped(x float64) string {
	if x < 100 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func blockOf(f Fields) string {
	if f["block"] == nil {
		return ""
	}
	return fmt.Sprintf("block %v", f["block"])
}

func words(parts ...string) string {
	var some []string
	for _, part := range parts {
		if part != "" {
			some = append(some, part)
		}
	}
	return strings.Join(some, " ")
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

func round(x float64, digits int) float64 {
	by := math.Pow(10, float64(digits))
	return math.Round(x*by) / by
}

// Bytes is an amount in words: 1.3 GB.
func Bytes(count int64) string {
	size, unit := float64(count), 0
	units := []string{"B", "kB", "MB", "GB", "TB"}
	for size >= 1000 && unit < len(units)-1 {
		size, unit = size/1000, unit+1
	}
	if unit == 0 || size >= 10 {
		return fmt.Sprintf("%d %s", int64(size), units[unit])
	}
	return fmt.Sprintf("%.1f %s", math.Floor(size*10)/10, units[unit])
}
