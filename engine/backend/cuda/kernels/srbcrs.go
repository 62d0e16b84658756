package kernels

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// SRBCRSForm is a form of strided row block compressed rows. The rows of a matrix are
// divided into panels of Vector rows, its columns into runs of Run columns; a panel keeps
// or drops the column vectors of a run together. Stride is the number of column vectors
// that are multiplied together, a multiple of Run.
type SRBCRSForm struct{ Vector, Run, Stride int }

// Int8Form is the form that convint8.cu reads: a tile of Vector×Stride is the left operand
// of mma.m16n8k32, and a run is 16 channels of one tap, of which a grid point has 16 bytes.
var Int8Form = SRBCRSForm{Vector: 16, Run: 16, Stride: 32}

// SRBCRS is the structure of a sparse matrix in strided row block compressed rows. A panel
// has a slot for each of its column vectors, in rising order, padded to a multiple of the
// stride. Values are stored for each stride slots, as a row-major tile of Vector×Stride,
// 0 where there is no vector.
//
// Source: Li, Osawa and Hoefler 2022, arXiv:2209.06979, section 4.1, where runs have one
// column.
type SRBCRS struct {
	// Ptr holds two entries for each panel: its first slot, and the first slot plus the number
	// of its vectors. The next panel begins at the padded end.
	Ptr []int32
	// Col holds the first column of each run of slots; −1 for padding.
	Col []int32
}

// NewSRBCRS returns the structure of a matrix of which keeps reports the kept runs, by
// panel and run.
func (f SRBCRSForm) NewSRBCRS(panels, runs int, keeps func(panel, run int) bool) (m SRBCRS) {
	for p := range panels {
		first := len(m.Col)
		for r := range runs {
			if keeps(p, r) {
				m.Col = append(m.Col, int32(r*f.Run))
			}
		}
		m.Ptr = append(m.Ptr, int32(first*f.Run), int32(len(m.Col)*f.Run))
		for len(m.Col)*f.Run%f.Stride > 0 {
			m.Col = append(m.Col, -1)
		}
	}
	return m
}

// Values returns the number of stored values: Vector for each slot, padding included.
func (f SRBCRSForm) Values(m SRBCRS) int { return len(m.Col) * f.Run * f.Vector }

// defines returns the macros of a form.
func (f SRBCRSForm) defines() []string {
	return []string{fmt.Sprintf("VECTOR=%d", f.Vector), fmt.Sprintf("RUN=%d", f.Run), fmt.Sprintf("STRIDE=%d", f.Stride)}
}

// Int8Points are the numbers of grid points of a block of convint8.cu, larger ones first.
var Int8Points = []int{256, 128}

// int8Stages is the number of buffers of convint8.cu.
const int8Stages = 4

// Int8Threads is the number of threads of a block of convint8.cu.
const Int8Threads = 128

// Int8PackThreads is the number of threads of a block of convint8pack.cu.
const Int8PackThreads = 256

// ConvInt8 returns the program of convolutions of integers, with results of the given
// storage type.
func ConvInt8(points int, stored string) device.Program {
	return Program("convint8.cu", append(Int8Form.defines(), "T="+stored, fmt.Sprintf("POINTS=%d", points), fmt.Sprintf("STAGES=%d", int8Stages))...)
}

// Int8Shared returns the bytes of shared memory of convint8.cu.
func Int8Shared(points int) int {
	return int8Stages * Int8Form.Stride * (Int8Form.Vector + points)
}

// ConvInt8Pack returns the program that packs filters in a form.
func ConvInt8Pack(f SRBCRSForm) device.Program {
	return Program("convint8pack.cu", f.defines()...)
}
