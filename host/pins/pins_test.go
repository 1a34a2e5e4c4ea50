package pins

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsduel/host/record"
)

func TestPinsGiveTheClientAQuarterInWholeCores(t *testing.T) {
	t.Setenv("TSDUEL_SYS", t.TempDir()) // all cores are alike
	limit := func(cpus float64) *float64 { return &cpus }
	for _, c := range []struct {
		wanted record.Pin
		cores  [][]int
		limit  *float64
		server string
		client string
		reason string
	}{
		{record.Pin{Mode: "auto"}, [][]int{{0}, {1}}, nil, "[0]", "[1]", ""},
		{record.Pin{Mode: "auto"}, [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}}, nil, "[0 4 1 5 2 6]", "[3 7]", ""},
		{record.Pin{Mode: "auto"}, [][]int{{0, 1}, {2, 3}}, nil, "[0 1]", "[2 3]", ""},
		{record.Pin{Mode: "auto"}, [][]int{{0, 1}}, nil, "[0]", "[1]", ""},
		{record.Pin{Mode: "auto"}, [][]int{{0}}, nil, "[]", "[]", "nothing is pinned: there is one core"},
		{record.Pin{Mode: "auto"}, [][]int{{0}, {1}, {2}, {3}}, limit(2.5), "[0]", "[1]",
			"a control group allows 2.5 of 4 CPUs, and 2 was taken as their number"},
		{record.Pin{Mode: "auto"}, [][]int{{0}, {1}, {2}, {3}}, limit(1.5), "[]", "[]",
			"nothing is pinned: a control group allows 1.5 of 4 CPUs"},
		{record.Pin{Mode: "off"}, [][]int{{0}, {1}}, nil, "[]", "[]", "host.pin is off"},
		{record.Pin{Mode: "fixed", Server: []int{1}, Client: []int{0}}, [][]int{{0}, {1}}, nil, "[1]", "[0]", ""},
	} {
		pin, err := split(c.wanted, c.cores, c.limit)
		if err != nil || fmt.Sprint(pin.Server) != c.server || fmt.Sprint(pin.Client) != c.client ||
			!strings.HasPrefix(pin.Reason, c.reason) || (c.reason == "") != (pin.Reason == "") {
			t.Errorf("%v of %v: %+v, %v", c.wanted, c.cores, pin, err)
		}
	}
	// Of two NUMA nodes only one is used, and the report says so.
	sys := t.TempDir()
	t.Setenv("TSDUEL_SYS", sys)
	for node, cpus := range map[string]string{"node0": "0", "node1": "1-3"} {
		dir := filepath.Join(sys, "devices/system/node", node)
		err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "cpulist"), []byte(cpus), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	pin, err := split(record.Pin{Mode: "auto"}, [][]int{{0}, {1}, {2}, {3}}, nil)
	if err != nil || fmt.Sprint(pin.Server, pin.Client) != "[1 2] [3]" ||
		pin.Reason != "3 of 4 CPUs are used: the fast cores of one NUMA node" {
		t.Errorf("%+v, %v", pin, err)
	}
	_, err = split(record.Pin{Mode: "fixed", Server: []int{7}, Client: []int{0}}, [][]int{{0}, {1}}, nil)
	if err == nil || err.Error() != "host.pin names CPU 7, and this machine lets us have [0 1]" {
		t.Error(err)
	}
}
