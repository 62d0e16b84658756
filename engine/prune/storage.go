package prune

// Format is a way to store a sparse matrix of float32.
type Format string

// The formats. CSR has values, columns of 4 or 2 bytes, and 4 bytes where each row begins; a
// bitmap has values and one bit of each place; 2:4 has half of the places as values and two bits
// of each.
const (
	DenseFormat   Format = "dense"
	CSR32         Format = "csr32"
	CSR16         Format = "csr16"
	Bitmap        Format = "bitmap"
	TwoFourFormat Format = "2:4"
)

// Formats lists those that hold any matrix.
var Formats = []Format{DenseFormat, CSR32, CSR16, Bitmap}

// Bytes is the size of a matrix of rows by columns with so many values that are not 0. A
// matrix with more columns than two bytes can count is stored in csr16 with four.
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

// MatrixShape is the size of a layer as a matrix: a row for each result.
func (l Layer) MatrixShape() (rows, columns int) { return l.Out, l.fanIn() }
