package netcdf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Fault is damage found in a file.
type Fault struct {
	Offset int64
	What   string
	Why    string
}

// Error is the fault on one line.
func (f *Fault) Error() string { return fmt.Sprintf("byte %d: %s: %s", f.Offset, f.What, f.Why) }

func faultf(off int64, what, why string, args ...any) *Fault {
	return &Fault{off, what, fmt.Sprintf(why, args...)}
}

// maxHeader bounds the header of a classic file: real ones have kilobytes.
const maxHeader = 256 << 20

// Scan checks that a file is as long as its header says, and that the header of a
// classic file makes sense. Nothing is allocated by a number from the file.
//
// Errors: a *Fault for damage, others of reading.
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

// scanHDF5 compares the end-of-file address of the superblock with the size.
//
// Source: HDF5 File Format Specification 3.0, II.A.
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
			return faultf(at, "superblock version not known", "version %d", version)
		}
		if width != 4 && width != 8 {
			return faultf(at, "impossible superblock", "file addresses of %d bytes", width)
		}
		address := func(k int) uint64 {
			p := b[base+k*width:]
			if width == 4 {
				return uint64(binary.LittleEndian.Uint32(p))
			}
			return binary.LittleEndian.Uint64(p)
		}
		// Base address, then free-space or extension address, then end of file.
		start, end := address(0), address(2)
		if end > 1<<62 || start > 1<<62 || start != uint64(at) && start != 0 {
			return faultf(at, "impossible superblock", "base address %d, end of file %d", start, end)
		}
		// With a user block the addresses count from the base or, in files moved
		// behind one, still from the superblock.
		if have := uint64(size); start == 0 && end+uint64(at) > have || start > 0 && end > have {
			return faultf(at, "file ends early", "it should have %d bytes and has %d", end, size)
		}
		return nil
	}
	return faultf(0, "not an HDF5 file", "its signature is damaged or missing")
}
