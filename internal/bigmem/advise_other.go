//go:build !linux

package bigmem

// advise does nothing: huge pages come by themselves or not at all.
func advise([]byte) {}
