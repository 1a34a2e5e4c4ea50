package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// Only a plain directory with our marker beside it is wiped: links and other disks may not be ours.
func TestOnlyWhatIsOursIsWiped(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir, precious string) error
		said string
	}{
		"no marker": {func(t *testing.T, dir, _ string) error { put(t, dir+"/x", ""); return nil },
			"is not marked as ours (data.tsduel-data beside it), so it is not wiped: move it away"},
		"a link as marker": {func(t *testing.T, dir, _ string) error {
			put(t, dir+"/x", "")
			return os.Symlink("/etc/hostname", dir+marked)
		}, "is not marked as ours"},
		"a link": {func(t *testing.T, dir, precious string) error {
			put(t, dir+marked, "")
			return os.Symlink(filepath.Dir(precious), dir)
		}, "is a link, and is not followed: remove it"},
		"a disk of its own": {func(t *testing.T, dir, _ string) error {
			put(t, dir+marked, "")
			put(t, dir+"/x", "")
			if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tsduel-test", dir).Run(); err != nil {
				t.Skipf("no disk can be mounted here: %v", err)
			}
			t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
			return nil
		}, "is a disk of its own, so it is not wiped: unmount it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			precious := put(t, filepath.Join(t.TempDir(), "elsewhere", "precious"), "mine")
			must(t, c.make(t, dir, precious))
			if err := Wipe(dir); err == nil || !strings.Contains(err.Error(), dir+" "+c.said) {
				t.Error(err)
			}
			if text, _ := os.ReadFile(precious); string(text) != "mine" {
				t.Error("it is gone")
			}
		})
	}
}

// All that a database or a benchmark leaves is removed: also read-only files, and links, not followed.
func TestWipeOfOurs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	precious := put(t, filepath.Join(t.TempDir(), "elsewhere", "precious"), "mine")
	must(t, Wipe(dir))
	put(t, filepath.Join(dir, "closed", "file"), "x")
	must(t, os.Symlink(filepath.Dir(precious), filepath.Join(dir, "link")))
	must(t, os.Symlink(precious, filepath.Join(dir, "closed", "link")))
	must(t, os.Chmod(filepath.Join(dir, "closed"), 0o500))
	must(t, Wipe(dir))
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Error(left, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
	if text, _ := os.ReadFile(precious); string(text) != "mine" {
		t.Error("a link was followed")
	}
}

// A directory that another user has put into a directory of all users is not taken for a private one.
func TestAPrivateDirectoryIsOurs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	all := filepath.Join(t.TempDir(), "tmp")
	theirs := filepath.Join(all, "tsduel")
	must(t, os.Mkdir(all, 0o777))
	must(t, os.Chmod(all, 0o777|os.ModeSticky))
	must(t, PrivateDir(filepath.Join(theirs, "cache")))
	must(t, os.Chown(theirs, 65534, 65534))
	if err := PrivateDir(filepath.Join(theirs, "cache")); err == nil || !strings.HasPrefix(err.Error(),
		theirs+" belongs to another user (uid 65534)") {
		t.Error(err)
	}
}
