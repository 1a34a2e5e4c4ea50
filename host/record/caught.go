package record

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

var catch atomic.Pointer[func(mistake any, stack []byte)]

// Catch is called with a panic of any goroutine that is Caught, until forget is called.
func Catch(do func(mistake any, stack []byte)) (forget func()) {
	catch.Store(&do)
	return func() { catch.Store(nil) }
}

// Caught makes a panic of a goroutine one of the program, which Catch ends in order: Go would end it at once, with
// the exit code of a user's mistake, and without an event.
func Caught(f func()) func() {
	return func() {
		defer func() {
			if mistake := recover(); mistake != nil {
				do := catch.Load()
				if do == nil {
					panic(mistake)
				}
				(*do)(mistake, debug.Stack())
			}
		}()
		f()
	}
}

// Defect is the error of a mistake in this program; where is a block, or nothing.
func Defect(where string, mistake any) *Stop {
	return &Stop{ExitDefect, fmt.Sprintf("a defect of tsduel%s, whose details are in run.log: %v", where, mistake)}
}
