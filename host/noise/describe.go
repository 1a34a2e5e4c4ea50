package noise

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// Describe says what this machine is; dir is where the databases' data will lie. CPUs is what may be used: less than the
// machine has where an affinity or a control group (CPULimit) says so.
func Describe(dir string) (*record.Facts, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("ask the kernel for its name: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return nil, fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	memory := fields(proc.Text(proc.Root(), "meminfo"), ":")
	f := &record.Facts{
		Hostname: unix.ByteSliceToString(name.Nodename[:]), Kernel: unix.ByteSliceToString(name.Release[:]),
		Architecture: unix.ByteSliceToString(name.Machine[:]), OS: strings.Trim(fields(proc.Text("/etc/os-release"), "=")["PRETTY_NAME"], `"`),
		CPUModel: fields(proc.Text(proc.Root(), "cpuinfo"), ":")["model name"], CPUs: len(proc.Allowed()),
		MemoryBytes: kib(memory["MemTotal"]), SwapBytes: kib(memory["SwapTotal"]), BootID: BootID(),
		Virtualization: virtualization(), Governor: governors(), TransparentHugepage: chosen(proc.Text(proc.SysRoot(), "kernel/mm/transparent_hugepage/enabled")),
		Filesystem: cmp.Or(filesystems[int64(disk.Type)], fmt.Sprintf("%#x", disk.Type)), DiskFreeBytes: int64(disk.Bavail) * disk.Bsize, Cgroup: "none",
	}
	if g := proc.Ours(); g != nil {
		f.Cgroup = g.Kind
	}
	if limit := proc.CPULimit(); limit > 0 && limit < float64(f.CPUs) {
		f.CPULimit, f.CPUs = &limit, max(1, int(limit))
	}
	return f, nil
}

// BootID changes whenever the machine is started.
func BootID() string { return proc.Text(proc.Root(), "sys/kernel/random/boot_id") }

// fields reads lines of NAME SEPARATOR VALUE; of a name that comes again the first counts.
func fields(lines, separator string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(lines) {
		name, value, ok := strings.Cut(line, separator)
		if name = strings.TrimSpace(name); ok && found[name] == "" {
			found[name] = strings.TrimSpace(value)
		}
	}
	return found
}

func kib(value string) (bytes int64) {
	_, _ = fmt.Sscanf(value, "%d kB", &bytes)
	return bytes << 10
}

func chosen(options string) string { // always [madvise] never
	_, rest, _ := strings.Cut(options, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

func governors() string { // of all CPUs, each once; nothing where the machine does not say
	files, _ := filepath.Glob(filepath.Join(proc.SysRoot(), "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
	var found []string
	for _, file := range files {
		found = append(found, proc.Text(file))
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

func virtualization() string { // as the firmware calls the machine, if a hypervisor is below it
	if _, guest, _ := strings.Cut(proc.Text(proc.Root(), "cpuinfo"), " hypervisor"); guest == "" {
		return "none"
	}
	return strings.TrimSpace(proc.Text(proc.SysRoot(), "class/dmi/id/sys_vendor") + " " + proc.Text(proc.SysRoot(), "class/dmi/id/product_name"))
}

// filesystems are the magic numbers of statfs(2) that are met under databases.
var filesystems = map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.F2FS_SUPER_MAGIC: "f2fs", unix.NFS_SUPER_MAGIC: "nfs", unix.FUSE_SUPER_MAGIC: "fuse", 0x2fc12fc1: "zfs"}

// Metadata is where Google's machines are told about themselves: an address, since a name would ask a resolver first.
var Metadata = "http://169.254.169.254/computeMetadata/v1/instance/maintenance-event"

// Maintenance is what the metadata server says of the machine under this VM; nothing anywhere but at Google.
func Maintenance() string {
	if proc.Text(proc.SysRoot(), "class/dmi/id/product_name") != "Google Compute Engine" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, Metadata, nil)
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
