package netcdf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Fault describes damage in a file.
type Fault struct {
	// Offset is the byte of the damage.
	Offset int64
	// What is wrong, in a few words.
	What string
	// Why gives the numbers that contradict each other.
	Why string
}

// Error formats the fault in one line.
func (f *Fault) Error() string { return fmt.Sprintf("byte %d: %s: %s", f.Offset, f.What, f.Why) }

// faultf makes a fault at a byte.
func faultf(off int64, what, why string, args ...any) *Fault {
	return &Fault{off, what, fmt.Sprintf(why, args...)}
}

// maxHeader bounds the header of a classic file. Real headers have kilobytes.
const maxHeader = 256 << 20

// Scan checks that a file has the length that its header requires, and that the
// header of a classic file is valid. No number from the file decides how much
// memory is allocated.
//
// NetCDF-C can crash or hang on a damaged header, so the check comes first.
//
// Errors: a *Fault for damage, others for reading.
func Scan(r io.ReaderAt, size int64) error {
	head := make([]byte, min(size, 8))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(head, []byte("CDF")) {
		if len(head) < 8 {
			return faultf(0, "file ends inside the header", "it has %d bytes", size)
		}
		return scanClassic(r, size, head[3])
	}
	return scanHDF5(r, size)
}

// scanHDF5 compares the end-of-file address in the superblock with the size of the
// file. The superblock lies at byte 0, 512, 1024, 2048 and so on.
//
// Source: HDF5 File Format Specification Version 3.0, section II.A (disk format
// level 0A, superblock).
func scanHDF5(r io.ReaderAt, size int64) error {
	signature := []byte("\x89HDF\r\n\x1a\n")
	for at := int64(0); at+8 <= size; at = max(512, 2*at) {
		var b [128]byte
		n, err := r.ReadAt(b[:], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !bytes.HasPrefix(b[:n], signature) {
			continue
		}
		if n < 48 {
			return faultf(at, "file ends inside the superblock", "%d bytes left", n)
		}
		var width, base int
		switch version := b[8]; version {
		case 0, 1:
			width, base = int(b[13]), 24+4*int(version)
		case 2, 3:
			width, base = int(b[9]), 12
		default:
			return faultf(at, "unknown superblock version", "version %d", version)
		}
		if width != 4 && width != 8 {
			return faultf(at, "invalid superblock", "file addresses of %d bytes", width)
		}
		address := func(k int) uint64 {
			p := b[base+k*width:]
			if width == 4 {
				return uint64(binary.LittleEndian.Uint32(p))
			}
			return binary.LittleEndian.Uint64(p)
		}
		// The addresses are: base, free-space information or superblock extension,
		// end of file.
		start, end := address(0), address(2)
		if end > 1<<62 || start > 1<<62 || start != uint64(at) && start != 0 {
			return faultf(at, "invalid superblock", "base address %d, end of file %d", start, end)
		}
		// After a user block, addresses are relative to the base address. Files to
		// which a user block was added later have base address 0, and addresses
		// relative to the superblock.
		if have := uint64(size); start == 0 && end+uint64(at) > have || start > 0 && end > have {
			return faultf(at, "file ends early", "the superblock states %d bytes, the file has %d", end, size)
		}
		return nil
	}
	return faultf(0, "not an HDF5 file", "its signature is damaged or missing")
}
