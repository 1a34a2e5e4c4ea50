package record

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// rateUnits by phase.
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
		if number(f["cells"]) > 1 {
			text += fill(", ${cells} cells in turn")
		}
		return info, text
	case "block-start":
		return info, fmt.Sprintf("%s begins (%s)", block, words(value("kind"), value("cell")))
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
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
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
