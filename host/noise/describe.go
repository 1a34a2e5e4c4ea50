package noise

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// Describe describes this machine and the disk of dir, where the databases' data will lie. Facts.CPUs counts
// the CPUs that may be used: an affinity or a control group (CPULimit) may allow fewer than the machine has. Pin
// says what there is to say of them where nothing is pinned.
func Describe(dir string) (*record.Facts, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("ask the kernel for its name: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return nil, fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	cpuinfo := proc.Text(proc.Root(), "cpuinfo")
	memory := proc.Fields(proc.Text(proc.Root(), "meminfo"), ":")
	_, hugepage, _ := strings.Cut(proc.Text(proc.SysRoot(), "kernel/mm/transparent_hugepage/enabled"), "[")
	hugepage, _, _ = strings.Cut(hugepage, "]") // always [madvise] never
	f := &record.Facts{
		// In a pod the kernel has the pod's name.
		Hostname:     cmp.Or(os.Getenv("TSDUEL_NODE"), unix.ByteSliceToString(name.Nodename[:])),
		Kernel:       unix.ByteSliceToString(name.Release[:]),
		Architecture: unix.ByteSliceToString(name.Machine[:]),
		OS:           strings.Trim(proc.Fields(proc.Text("/etc/os-release"), "=")["PRETTY_NAME"], `"`),
		CPUModel:     cpuModel(cpuinfo), CPUs: len(proc.Allowed()),
		MemoryBytes: proc.KiB(memory["MemTotal"]), SwapBytes: proc.KiB(memory["SwapTotal"]), BootID: BootID(),
		Virtualization: virtualization(cpuinfo), Governor: governors(), TransparentHugepage: hugepage,
		Sysctls:       sysctls(),
		Filesystem:    cmp.Or(filesystems[int64(disk.Type)], fmt.Sprintf("%#x", disk.Type)),
		DiskFreeBytes: int64(disk.Bavail) * disk.Bsize, Cgroup: "none", Environment: proc.Environment(),
	}
	if _, left := proc.Alike(proc.Siblings()); left != "" {
		f.Pin.Reason = "its CPUs are of several kinds or NUMA nodes, and servers may run on any"
	}
	if g := proc.Ours(); g != nil {
		f.Cgroup = g.Kind
	}
	if limit := proc.CPULimit(); limit > 0 && limit < float64(f.CPUs) {
		f.CPULimit, f.CPUs = &limit, max(1, int(limit))
	}
	return f, nil
}

// sysctls has those of the kernel's settings that machine types at Google's were seen to differ in, and their kin.
func sysctls() map[string]string {
	found := map[string]string{}
	for name := range strings.FieldsSeq(`kernel.numa_balancing net.core.default_qdisc net.core.somaxconn
		net.ipv4.tcp_congestion_control vm.dirty_background_ratio vm.dirty_ratio vm.max_map_count vm.overcommit_memory
		vm.swappiness`) {
		if text := proc.Text(proc.Root(), "sys", strings.ReplaceAll(name, ".", "/")); text != "" {
			found[name] = text
		}
	}
	return found
}

func BootID() string { return proc.Text(proc.Root(), "sys/kernel/random/boot_id") }

func governors() string {
	var names []string
	for _, file := range proc.Glob(proc.SysRoot(), "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") {
		names = append(names, proc.Text(file))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

func product() string { return proc.Text(proc.SysRoot(), "class/dmi/id/product_name") }

// filesystems are the magic numbers of statfs(2) of disks that databases lie on.
var filesystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.F2FS_SUPER_MAGIC: "f2fs", unix.NFS_SUPER_MAGIC: "nfs",
	unix.FUSE_SUPER_MAGIC: "fuse", 0x2fc12fc1: "zfs",
}

// metadataURL is on Google's metadata server. Its address needs no resolver.
var metadataURL = "http://169.254.169.254/computeMetadata/v1/instance/maintenance-event"

// maintenance returns the maintenance event of the machine under this VM, "" on any machine but Google's.
func maintenance() string {
	if product() != "Google Compute Engine" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metadataURL, nil)
	if err != nil {
		return ""
	}
	request.Header.Set("Metadata-Flavor", "Google")
	answer, err := (&http.Client{Transport: &http.Transport{}}).Do(request) // no proxy
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 200))
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(body))
}

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
