package proc

import "cmp"

// Files are the open files of a process, and how many it may have open.
type Files struct{ Open, Most int }

// OpenFiles reads them.
func OpenFiles(pid int) (*Files, error) {
	p, err := FS().Proc(pid)
	if err != nil {
		return nil, err
	}
	open, noFiles := p.FileDescriptorsLen()
	limits, noLimits := p.Limits()
	return &Files{open, int(limits.OpenFiles)}, cmp.Or(noFiles, noLimits)
}
