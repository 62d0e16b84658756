//go:build !linux

package bigmem

// advise does nothing on systems without madvise for huge pages.
func advise([]byte) {}
