// Package mutate corrupts files for tests, as faulty transfers, disks and attackers
// do. Equal seeds give equal results on every machine.
package mutate

import (
	"encoding/binary"
	"math/rand/v2"
)

// extremes are values that a parser must not trust as sizes.
var extremes = []uint64{0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1<<32 + 1, 1<<63 - 1, 1 << 63, 1<<64 - 1}

// File returns one of the seeds after one to eight random changes: flipped bits,
// numbers replaced by extremes in either byte order, ranges removed, duplicated or
// copied from another seed, and truncation.
func File(r *rand.Rand, seeds [][]byte) []byte {
	pick := func() []byte { return seeds[r.IntN(len(seeds))] }
	b := append([]byte(nil), pick()...)
	piece := func(of []byte) (from, to int) {
		from = r.IntN(len(of) + 1)
		return from, min(len(of), from+1+r.IntN(64))
	}
	for range 1 + r.IntN(8) {
		if len(b) == 0 {
			return b
		}
		at := r.IntN(len(b))
		if r.IntN(2) == 0 { // headers are short but matter most
			at = r.IntN(min(len(b), 256))
		}
		switch r.IntN(8) {
		case 0, 1:
			b[at] ^= 1 << r.IntN(8)
		case 2:
			b[at] = byte(r.Uint32())
		case 3, 4:
			var number [8]byte
			x, n := extremes[r.IntN(len(extremes))], 1<<r.IntN(4)
			if r.IntN(2) == 0 {
				binary.LittleEndian.PutUint64(number[:], x)
				copy(b[at:], number[:n])
			} else {
				binary.BigEndian.PutUint64(number[:], x)
				copy(b[at:], number[8-n:])
			}
		case 5:
			from, to := piece(b)
			b = append(b[:from:from], b[to:]...)
		case 6:
			other := pick()
			from, to := piece(other)
			b = append(append(b[:at:at], other[from:to]...), b[at:]...)
		case 7:
			if r.IntN(4) == 0 {
				b = b[:at]
			}
		}
	}
	return b
}
