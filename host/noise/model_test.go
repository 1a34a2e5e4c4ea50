package noise

import (
	"fmt"
	"strings"
	"testing"
)

// armCPU is a paragraph of an Arm's /proc/cpuinfo.
func armCPU(number int, implementer, variant, part string, revision int) string {
	return fmt.Sprintf("processor\t: %d\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes\nCPU implementer\t: %s\n"+
		"CPU architecture: 8\nCPU variant\t: %s\nCPU part\t: %s\nCPU revision\t: %d\n\n", number, implementer, variant, part,
		revision)
}

// Arm has neither a model name nor a flag of hypervisors: MIDR and the firmware say what a machine is.
func TestArmMachinesAreToldApart(t *testing.T) {
	two := func(implementer, variant, part string, revision int) string {
		return armCPU(0, implementer, variant, part, revision) + armCPU(1, implementer, variant, part, revision)
	}
	for _, c := range []struct {
		cpuinfo, vendor, product string
		model, virtual           string
	}{
		{two("0x41", "0x1", "0xd40", 1), "Amazon EC2", "c7g.16xlarge", "Arm Neoverse-V1 r1p1", "Amazon EC2 c7g.16xlarge"},
		{two("0x41", "0x1", "0xd40", 1), "Amazon EC2", "c7g.metal", "Arm Neoverse-V1 r1p1", "none"},
		{two("0x41", "0x3", "0xd0c", 1), "Google", "Google Compute Engine", "Arm Neoverse-N1 r3p1",
			"Google Google Compute Engine"},
		{two("0x41", "0x3", "0xd0c", 1), "Ampere(R)", "Mt. Jade", "Arm Neoverse-N1 r3p1", "none"},
		{two("0xc0", "0x0", "0xac3", 1), "", "", "implementer 0xc0 part 0xac3 r0p1", "none"},
		{armCPU(0, "0x41", "0x0", "0xd05", 0) + armCPU(1, "0x41", "0x3", "0xd0b", 0), "", "",
			"implementer 0x41 part 0xd05 r0p0 + implementer 0x41 part 0xd0b r3p0", "none"},
		{"processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor\n", "QEMU", "Standard PC", "Some CPU",
			"QEMU Standard PC"},
		{"processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu\n", "Dell Inc.", "R760", "Some CPU", "none"},
	} {
		root, sys := t.TempDir(), t.TempDir()
		t.Setenv("TSDUEL_PROC", root)
		t.Setenv("TSDUEL_SYS", sys)
		write(t, root, "cpuinfo", c.cpuinfo)
		if c.vendor != "" {
			write(t, sys, "class/dmi/id/sys_vendor", c.vendor+"\n")
			write(t, sys, "class/dmi/id/product_name", c.product+"\n")
		} else if strings.Contains(c.model, "0xac3") {
			write(t, root, "device-tree/compatible", "linux,dummy-virt\x00")
			c.virtual = "linux,dummy-virt"
		}
		if f := described(t); f.CPUModel != c.model || f.Virtualization != c.virtual {
			t.Errorf("%q and %q, not %q and %q", f.CPUModel, f.Virtualization, c.model, c.virtual)
		}
	}
}
