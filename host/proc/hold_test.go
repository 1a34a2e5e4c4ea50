package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// counting is a process that counts in a file, and so does one that it starts in a session of its own.
func counting(t *testing.T) (p *Process, files []string) {
	t.Helper()
	dir := t.TempDir()
	files = []string{filepath.Join(dir, "own"), filepath.Join(dir, "started")}
	const count = "'while :; do echo >>$0; done' "
	p = shell(t, "setsid sh -c "+count+files[1]+" & exec sh -c "+count+files[0])
	waitFor(t, "both count", func() bool { return size(files[0]) > 0 && size(files[1]) > 0 })
	return p, files
}

func size(file string) int64 {
	if info, err := os.Stat(file); err == nil {
		return info.Size()
	}
	return 0
}

func TestAHeldProcessAndAllThatItHasStartedStandStillUntilTheyAreReleased(t *testing.T) {
	for _, means := range []string{ByGroup, BySignals} {
		t.Run(means, func(t *testing.T) {
			p, files := counting(t)
			if means == BySignals {
				p.holder = &stopper{process: p}
			}
			if p.HeldBy() != means {
				t.Skipf("this machine has no %s", means)
			}
			for range 20 {
				must(t, p.Hold())
				held := [2]int64{size(files[0]), size(files[1])}
				time.Sleep(5 * time.Millisecond)
				failIf(t, held != [2]int64{size(files[0]), size(files[1])}, "it went on while it was held")
				must(t, p.Release())
				waitFor(t, "both go on", func() bool { return size(files[0]) > held[0] && size(files[1]) > held[1] })
			}
			must(t, p.Hold())
			must(t, p.Kill())
			failIf(t, alive(p), "it was held, and is not killed")
		})
	}
}

func TestAHeldProcessThatHasEndedIsNoError(t *testing.T) {
	p := shell(t, "exit 0")
	exitOf(t, p)
	must(t, errors.Join(p.Hold(), p.Release()))
}

// restless is a process that does not stand still.
type restless struct{ releases int }

func (*restless) hold() error      { return nil }
func (*restless) held() bool       { return false }
func (r *restless) release() error { r.releases++; return nil }
func (*restless) close()           {}

func TestAProcessThatDoesNotStandStillInTimeIsSaidToAndGoesOn(t *testing.T) {
	defer func(before time.Duration) { HoldPatience = before }(HoldPatience)
	HoldPatience = 20 * time.Millisecond
	p, r := shell(t, "sleep 600"), &restless{}
	p.holder = r
	err := p.Hold()
	failIf(t, err == nil || !strings.Contains(err.Error(), "did not stand still within 20ms") || r.releases != 1,
		"%v, released %d times", err, r.releases)
}
