// Package logs finds the lines of a log, or of a program's output, that say what went wrong.
package logs

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"tsduel/host/bound"
	"tsduel/host/proc"
	"tsduel/host/scrape"
)

// The lines of a log that explain a failed block best.
var (
	crash = regexp.MustCompile("panic: |\tpanic\t|\tfatal\t|fatal error: |FATAL|SIGSEGV|flag provided|error: |" +
		"Error parsing ")
	complains = regexp.MustCompile("level=ERROR|\t(error|warn)\t|lvl=(error|warn)")
	goFailure = regexp.MustCompile("^panic: |^fatal error: |rror|^zstd: ")
)

// Lines shows each line of the files that is not blank, up to bound.Line of it; files that do not exist have none.
func Lines(see func(string), paths ...string) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		var line []byte
		reader, within := bufio.NewReaderSize(file, bound.Line), false
		for err == nil || errors.Is(err, bufio.ErrBufferFull) {
			line, err = reader.ReadSlice('\n')
			if !within && len(bytes.TrimSpace(line)) > 0 {
				see(string(line))
			}
			within = err != nil
		}
		_ = file.Close()
	}
}

// LastMatch is what the first group of a pattern matched last in the lines of files; empty without a match.
func LastMatch(pattern *regexp.Regexp, paths ...string) (last string) {
	Lines(func(line string) {
		if match := pattern.FindStringSubmatch(line); match != nil {
			last = match[1]
		}
	}, paths...)
	return last
}

// LastWords are that a server has written too much into its log, else the first line of it about a crash, else its
// newest complaint, else its last line.
func LastWords(log string) string {
	var flooded, crashed, complained, last string
	Lines(func(line string) {
		if crashed == "" && crash.MatchString(line) {
			crashed = line
		}
		if complains.MatchString(line) {
			complained = line
		}
		if strings.HasPrefix(line, proc.TooMuchLog) {
			flooded = line
		}
		last = line
	}, log)
	return fmt.Sprintf("%s (its log: %s)", scrape.OneLine(cmp.Or(flooded, crashed, complained, last, "it said nothing")),
		strings.Replace(log, ".partial", "", 1))
}

// goWords are the line of an output before the stack that Go prints, else its last line.
type goWords struct{ failed, last string }

func (g *goWords) see(line string) {
	if g.last = line; g.failed == "" && goFailure.MatchString(line) {
		g.failed = line
	}
}

func (g *goWords) String() string { return scrape.OneLine(cmp.Or(g.failed, g.last, "it said nothing")) }

// ClientWords are those of a client's output.
func ClientWords(paths ...string) string {
	var words goWords
	Lines(words.see, paths...)
	return words.String()
}

// WordsOf are those of texts.
func WordsOf(texts ...[]byte) string {
	var words goWords
	for line := range bytes.Lines(bytes.Join(texts, []byte("\n"))) {
		if len(bytes.TrimSpace(line)) > 0 {
			words.see(string(line))
		}
	}
	return words.String()
}

// ExitWords say an exit code, and the signal that it stands for.
func ExitWords(code int) string {
	if code <= 128 {
		return fmt.Sprintf("exit code %d", code)
	}
	signal := strings.TrimPrefix(unix.SignalName(unix.Signal(code-128)), "SIG")
	return fmt.Sprintf("exit code %d (%s)", code, cmp.Or(signal, "no signal"))
}

// Complaint is the first line of a log about a crash, or the first complaint; empty if there is none.
func Complaint(log string) (first string) {
	Lines(func(line string) {
		if first == "" && (crash.MatchString(line) || complains.MatchString(line)) {
			first = scrape.OneLine(line)
		}
	}, log)
	return first
}
