package exchange

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInstructionsAreCountedOrTheReasonIsGiven(t *testing.T) {
	count, err := CountInstructions(os.Getpid())
	if err != nil {
		if !strings.HasPrefix(err.Error(), "this machine counts no instructions: ") {
			t.Error(err)
		}
		t.Skip(err)
	}
	defer count.Close()
	before, err := count.Read()
	sum := 0
	for i := range 1_000_000 {
		sum += i
	}
	after, err2 := count.Read()
	if err != nil || err2 != nil || after-before < 1_000_000 {
		t.Errorf("%d instructions for a million additions (%d), %v, %v", after-before, sum, err, err2)
	}
}

// A thread that is born while counters are opened is counted once: all counters are opened anew.
func TestThreadsBornMeanwhileAreCounted(t *testing.T) {
	born, end := make(chan int), make(chan struct{})
	defer close(end)
	opened := map[int]int{} // thread -> how often; a listing is in the order of names, where 1000 is before 999
	child := 0
	count, err := countThreads(func(tid int) (int, error) {
		if child == 0 {
			listed, err := threads([]int{os.Getpid()})
			must(t, err)
			for child = tid; slices.Contains(listed, child); { // Go takes idle threads first
				go func() {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread() // a thread that ended would hide others from who lists them just then
					born <- unix.Gettid()
					<-end
				}()
				child = <-born
			}
		}
		opened[tid]++
		return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}, os.Getpid())
	must(t, err)
	defer count.Close()
	first := os.Getpid() // the thread that is always listed
	if _, counted := count.counters[child]; !counted || opened[child] == 0 || opened[first] != opened[child]+1 {
		t.Errorf("thread %d is not counted, or not all were opened anew with it: %v, counted %v", child, opened,
			count.counters)
	}
	refuse := func(int) (int, error) { return 0, unix.ENOENT }
	if _, err := countThreads(refuse, os.Getpid()); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
}
