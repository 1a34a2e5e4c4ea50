package checks

import (
	"strings"
	"testing"

	"tsduel/host/record"
)

// A server may say what the plan hides.
func TestNoMessageOfACheckHasASecret(t *testing.T) {
	in := &record.Block{}
	list := List{Of: "b", In: in, Mask: strings.NewReplacer("key", "***").Replace}
	err := list.Equal("operations_answered", 2, 1, "HTTP 403: %s is no key", "key")
	if err == nil || err.Error() != "HTTP 403: *** is no ***" || in.Checks[0].Message != err.Error() {
		t.Error(err, in.Checks)
	}
}
