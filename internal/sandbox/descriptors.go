package sandbox

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// closeInherited closes the descriptors from first on that programs before this one left open, but not those of Go's scheduler, which are
// no files.
func closeInherited(first int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < first {
			continue
		}
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(to, "anon_inode:") { // the former: the folder that was read
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 { // opened by this process: inherited ones lack the flag
			continue
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}
