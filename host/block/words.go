package block

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"tsduel/host/scrape"
)

// The last words that matter, for the sentence of a block that failed.
var (
	crash     = regexp.MustCompile("panic: |\tpanic\t|\tfatal\t|fatal error: |FATAL|SIGSEGV|flag provided|error: |Error parsing ")
	complains = regexp.MustCompile("level=ERROR|\t(error|warn)\t|lvl=(error|warn)")
	goFailure = regexp.MustCompile("^panic: |^fatal error: |rror|^zstd: ")
)

// lines reads the files that exist, and shows each line that is not blank.
func lines(see func(string), paths ...string) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		for reader := bufio.NewReaderSize(file, 1<<16); err == nil; {
			var line []byte
			if line, err = reader.ReadBytes('\n'); len(bytes.TrimSpace(line)) > 0 {
				see(string(line))
			}
		}
		_ = file.Close()
	}
}

// lastWords are those of a server: what a crash says of itself, which stands before its stacks, else the newest
// complaint, else the last line.
func lastWords(s *server) string {
	_ = s.bringLog() // else what there is
	var crashed, complained, last string
	lines(func(line string) {
		if crashed == "" && crash.MatchString(line) {
			crashed = line
		}
		if complains.MatchString(line) {
			complained = line
		}
		last = line
	}, s.log)
	return fmt.Sprintf("%s (its log: %s)", scrape.OneLine(cmp.Or(crashed, complained, last, "it said nothing")), strings.Replace(s.log, ".partial", "", 1))
}

// clientWords are those of a client: the line before the stack that Go prints, else its last one.
func clientWords(paths ...string) string {
	var all [][]byte
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		all = append(all, text)
	}
	return wordsOf(all...)
}

func wordsOf(texts ...[]byte) string {
	var failed, last string
	for _, text := range texts {
		for line := range bytes.Lines(text) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if last = string(line); failed == "" && goFailure.Match(line) {
				failed = last
			}
		}
	}
	return scrape.OneLine(cmp.Or(failed, last, "it said nothing"))
}

// exitWords are an exit code and the signal that it stands for.
func exitWords(code int) string {
	if code <= 128 {
		return fmt.Sprintf("exit code %d", code)
	}
	return fmt.Sprintf("exit code %d (%s)", code, cmp.Or(strings.TrimPrefix(unix.SignalName(unix.Signal(code-128)), "SIG"), "no signal"))
}

// wantOfMemory is a word on it, where it came to that in this block.
func (f *frame) wantOfMemory() string {
	if f.killedForMemory() <= f.oomKills {
		return ""
	}
	return "; the kernel has ended a process for want of memory in this block: see dmesg, and take a larger machine or fewer hosts"
}

// quietLog checks that a log has no line that the target calls trouble.
func (f *frame) quietLog(v *variant, log string) error {
	if v.target.Trouble == "" {
		return nil
	}
	trouble, err := regexp.Compile(v.target.Trouble)
	if err != nil {
		return fmt.Errorf("the target's trouble: %w", err)
	}
	count, worst := 0, ""
	lines(func(line string) {
		if trouble.MatchString(line) {
			count, worst = count+1, cmp.Or(worst, line)
		}
	}, log)
	return f.equal(v, "server_log", 0, float64(count), "the server's log has a panic or a fatal error: "+scrape.OneLine(worst))
}
