package block

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

// lines shows each line of the files that is not blank, up to bound.Line of it; files that do not exist have none.
func lines(see func(string), paths ...string) {
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

// lastMatch is what the first group of a pattern matched last in the lines of files; empty without a match.
func lastMatch(pattern *regexp.Regexp, paths ...string) (last string) {
	lines(func(line string) {
		if match := pattern.FindStringSubmatch(line); match != nil {
			last = match[1]
		}
	}, paths...)
	return last
}

// lastWords are that a server has written too much, else the first line of its log about a crash, else its newest
// complaint, else its last line.
func lastWords(s *server) string {
	_ = s.maskLog() // without it, the log as it is here
	var flooded, crashed, complained, last string
	lines(func(line string) {
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
	}, s.log)
	return fmt.Sprintf("%s (its log: %s)", scrape.OneLine(cmp.Or(flooded, crashed, complained, last, "it said nothing")),
		strings.Replace(s.log, ".partial", "", 1))
}

// quietLog checks that the log was not too large, and has no line that the target calls trouble.
func (s *server) quietLog() error {
	pattern, known := "^"+proc.TooMuchLog, s.variant.target.Trouble
	if known != "" {
		pattern += "|" + known
	}
	trouble, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("the target's trouble: %w", err)
	}
	count, worst := int64(0), ""
	lines(func(line string) {
		if trouble.MatchString(line) {
			count, worst = count+1, cmp.Or(worst, line)
		}
	}, s.log)
	if known == "" && count == 0 {
		return nil
	}
	wrong := "the server's log has a panic or a fatal error: " + scrape.OneLine(worst)
	if words := lastWords(s); strings.HasPrefix(words, proc.TooMuchLog) { // it ended before anybody looked
		wrong = words
	}
	return s.variant.equal("server_log", 0, count, "%s", wrong)
}

// goWords are the line of an output before the stack that Go prints, else its last line.
type goWords struct{ failed, last string }

func (g *goWords) see(line string) {
	if g.last = line; g.failed == "" && goFailure.MatchString(line) {
		g.failed = line
	}
}

func (g *goWords) String() string { return scrape.OneLine(cmp.Or(g.failed, g.last, "it said nothing")) }

// clientWords are those of a client's output.
func clientWords(paths ...string) string {
	var words goWords
	lines(words.see, paths...)
	return words.String()
}

func wordsOf(texts ...[]byte) string {
	var words goWords
	for line := range bytes.Lines(bytes.Join(texts, []byte("\n"))) {
		if len(bytes.TrimSpace(line)) > 0 {
			words.see(string(line))
		}
	}
	return words.String()
}

func exitWords(code int) string {
	if code <= 128 {
		return fmt.Sprintf("exit code %d", code)
	}
	signal := strings.TrimPrefix(unix.SignalName(unix.Signal(code-128)), "SIG")
	return fmt.Sprintf("exit code %d (%s)", code, cmp.Or(signal, "no signal"))
}
