package prune

import "github.com/ensemble-weather/ensemble/engine/op"

// Format is a storage format of a sparse float32 matrix.
//
// Source: Saad 2003, Iterative Methods for Sparse Linear Systems, 2nd ed., section 3.4
// (CSR); Mishra et al. 2021, arXiv:2104.08378 (2:4).
type Format string

// The formats and their content, n being the number of nonzeros:
//
//	dense   4 bytes per element
//	csr32   4n bytes of values, 4n of column indices, 4 per row and 4 for row offsets
//	csr16   as csr32 with column indices of 2 bytes
//	bitmap  4n bytes of values, 1 bit per element
//	2:4     values of half of the elements, 2 bits of index for each of them
const (
	DenseFormat   Format = "dense"
	CSR32         Format = "csr32"
	CSR16         Format = "csr16"
	Bitmap        Format = "bitmap"
	TwoFourFormat Format = "2:4"
)

// Formats lists the formats that can hold any matrix.
var Formats = []Format{DenseFormat, CSR32, CSR16, Bitmap}

// Bytes is the size of a matrix in bytes. CSR16 with more than 65536 columns has the size of CSR32,
// as two bytes cannot hold its column indices.
func (f Format) Bytes(rows, columns, nonzeros int) int64 {
	places, nnz := int64(rows)*int64(columns), int64(nonzeros)
	switch f {
	case CSR32:
		return 8*nnz + 4*int64(rows+1)
	case CSR16:
		if columns > 1<<16 {
			return CSR32.Bytes(rows, columns, nonzeros)
		}
		return 6*nnz + 4*int64(rows+1)
	case Bitmap:
		return 4*nnz + (places+7)/8
	case TwoFourFormat:
		kept := (places + 1) / 2
		return 4*kept + (2*kept+7)/8
	}
	return 4 * places
}

// MatrixShape is the size of the layer as a matrix: one row for each output channel.
func (l Layer) MatrixShape() (rows, columns int) { return l.Out, l.fanIn() }

// TwoFourBytes is the size of the layer in TwoFourFormat. Each tap has whole quads of input channels, the last
// filled up with zeros.
func (l Layer) TwoFourBytes() int64 {
	return TwoFourFormat.Bytes(l.Out, l.Taps()*ceilDiv(l.In, op.Quad)*op.Quad, 0)
}
