package noise

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tsduel/host/proc"
)

// arms are Arm's own cores of servers, by their part number (MIDR_EL1, implementer 0x41).
var arms = map[uint64]string{0xd08: "Cortex-A72", 0xd0c: "Neoverse-N1", 0xd40: "Neoverse-V1", 0xd49: "Neoverse-N2",
	0xd4f: "Neoverse-V2", 0xd84: "Neoverse-V3", 0xd8e: "Neoverse-N3"}

// cpuModel is the model name of x86, or the distinct MIDRs of Arm (implementer, part, variant and revision).
func cpuModel(cpuinfo string) string {
	if model := proc.Fields(cpuinfo, ":")["model name"]; model != "" || !isArm(cpuinfo) {
		return model
	}
	var models []string
	for text := range strings.SplitSeq(cpuinfo, "\n\n") { // a paragraph a CPU
		f := proc.Fields(text, ":")
		number := func(name string) uint64 {
			n, _ := strconv.ParseUint(f["CPU "+name], 0, 32)
			return n
		}
		if f["CPU part"] == "" {
			continue
		}
		implementer, part := number("implementer"), number("part")
		name := fmt.Sprintf("implementer %#02x part %#03x", implementer, part)
		if arm := arms[part]; arm != "" && implementer == 0x41 {
			name = "Arm " + arm
		}
		models = append(models, fmt.Sprintf("%s r%dp%d", name, number("variant"), number("revision")))
	}
	slices.Sort(models)
	return strings.Join(slices.Compact(models), " + ")
}

func isArm(cpuinfo string) bool { return strings.Contains(cpuinfo, "CPU implementer") }

// virtual is how firmware names machines that are virtual; Arm has no flag for it. Amazon calls a whole machine
// NAME.metal.
var virtual = regexp.MustCompile(`^(Amazon EC2|Google|QEMU|KVM|OpenStack|VMware|Xen|Bochs|Parallels|BHYVE|` +
	`Alibaba Cloud|Apple.*Virtual|Microsoft.*Virtual|Oracle.*Virtual|OracleCloud|Hetzner)`)

// virtualization returns the firmware's name of a virtual machine, else "none".
func virtualization(cpuinfo string) string {
	name := strings.TrimSpace(proc.Text(proc.SysRoot(), "class/dmi/id/sys_vendor") + " " + product())
	found := strings.Contains(cpuinfo, " hypervisor")
	if isArm(cpuinfo) {
		tree := proc.Text(proc.Root(), "device-tree/hypervisor/compatible") + proc.Text(proc.Root(), "device-tree/compatible")
		if found = virtual.MatchString(name) && !strings.Contains(name, ".metal"); name == "" && tree != "" {
			name = strings.Trim(strings.ReplaceAll(tree, "\x00", " "), " ")
			found = strings.Contains(name, "dummy-virt") || strings.Contains(name, "xen") || strings.Contains(name, "kvm")
		}
	}
	if !found {
		return "none"
	}
	return name
}
