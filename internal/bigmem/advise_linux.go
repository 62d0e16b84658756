package bigmem

import "golang.org/x/sys/unix"

// advise requests huge pages. Errors are ignored: without huge pages the memory
// works as well.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
