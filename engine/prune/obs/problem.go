package obs

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Problem is a layer as a matrix whose rows share a Hessian. Rows W change the error by
//
//	E = ½ Σᵣ (wᵣ − vᵣ)ᵀ H (wᵣ − vᵣ)
//
// with the trained weights V. A block is BlockRows × BlockColumns weights; the last ones may be smaller. Columns from
// Removable on belong to no block and stay, such as that of a bias.
type Problem struct {
	Weights   *mat.Dense    // [rows columns]; Remove changes it
	Hessian   *mat.SymDense // [columns columns], positive definite
	Removable int           // number of columns that blocks cover
	BlockRows int
	BlockCols int
	// KeepColumns keeps a block in each block of columns: the inputs of a network.
	KeepColumns bool
}

// Block is a block of a Problem, by its indices among the blocks of rows and of columns.
type Block struct{ Row, Column int }

// Removal is a removed block with the increase of E that it causes.
type Removal struct {
	Block
	Increase float64
}

// ErrSingular reports a Hessian that is not positive definite.
var ErrSingular = errors.New("the Hessian is not positive definite; use more damping")

// band is the rows of one block of rows. Their remaining weights are the same, and with them the inverse of the
// Hessian of the remaining weights.
type band struct {
	p       *Problem
	w       *mat.Dense // rows of the weights
	inverse *mat.Dense // [columns columns], zero in the rows and columns of removed blocks
	removed []bool     // by block of columns
	next    int        // block whose removal increases E least for each weight; −1 for none
	cost    float64    // that increase for each weight
}

// Remove removes blocks of at most budget weights together, one after the other, each the one that increases the error
// least for each of its weights when the remaining weights of its rows follow:
//
//	ΔE = ½ Σᵣ w_Bᵀ (H⁻¹_BB)⁻¹ w_B     Δw = −H⁻¹_{:,B} (H⁻¹_BB)⁻¹ w_B     H⁻¹ ← H⁻¹ − H⁻¹_{:,B} (H⁻¹_BB)⁻¹ H⁻¹_{B,:}
//
// with the inverse of H over the remaining weights. The removals are in order; they end when the next
// block exceeds the budget, or none may go. Removed weights are exactly 0.
//
// Memory: columns² values for each block of rows.
// Cost: O(columns² · BlockCols) for each removal, and rows · BlockCols² + BlockCols³ for each candidate.
// Errors: ErrSingular.
func (p *Problem) Remove(budget int) ([]Removal, error) {
	var factor mat.Cholesky
	if !factor.Factorize(p.Hessian) {
		return nil, ErrSingular
	}
	var inverse mat.SymDense
	if err := factor.InverseTo(&inverse); err != nil {
		return nil, ErrSingular
	}
	rows, columns := p.Weights.Dims()
	var bands []*band
	for lo := 0; lo < rows; lo += p.BlockRows {
		w := p.Weights.Slice(lo, min(lo+p.BlockRows, rows), 0, columns).(*mat.Dense)
		bands = append(bands, &band{p: p, w: w, inverse: mat.DenseCopyOf(&inverse), removed: make([]bool, ceilDiv(p.Removable, p.BlockCols))})
	}
	left := slices.Repeat([]int{len(bands)}, ceilDiv(p.Removable, p.BlockCols)) // blocks of each block of columns
	mayRemove := func(column int) bool { return !p.KeepColumns || left[column] > 1 }
	for _, b := range bands {
		b.choose(mayRemove)
	}
	var out []Removal
	for {
		best := -1
		for i, b := range bands {
			if b.next >= 0 && !mayRemove(b.next) { // another band removed the last but one of its column
				b.choose(mayRemove)
			}
			if b.next >= 0 && (best < 0 || b.cost < bands[best].cost) {
				best = i
			}
		}
		if best < 0 {
			return out, nil
		}
		b := bands[best]
		size := b.size(b.next)
		if budget -= size; budget < 0 {
			return out, nil
		}
		out = append(out, Removal{Block{best, b.next}, b.cost * float64(size)})
		left[b.next]--
		if err := b.remove(b.next); err != nil {
			return nil, err
		}
		b.choose(mayRemove)
	}
}

// size is the number of weights of a block.
func (b *band) size(block int) int {
	lo, hi := b.p.columns(block)
	rows, _ := b.w.Dims()
	return rows * (hi - lo)
}

// columns is the range of columns of a block.
func (p *Problem) columns(block int) (lo, hi int) {
	return block * p.BlockCols, min((block+1)*p.BlockCols, p.Removable)
}

// solve returns (H⁻¹_BB)⁻¹ x for a block.
//
// Errors: ErrSingular.
func (b *band) solve(block int, x mat.Matrix) (*mat.Dense, error) {
	lo, hi := b.p.columns(block)
	k := mat.NewSymDense(hi-lo, nil)
	for i := lo; i < hi; i++ {
		for j := lo; j <= i; j++ {
			k.SetSym(i-lo, j-lo, (b.inverse.At(i, j)+b.inverse.At(j, i))/2) // symmetric up to rounding
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(k) {
		return nil, ErrSingular
	}
	var y mat.Dense
	if err := factor.SolveTo(&y, x); err != nil && !errors.As(err, new(mat.Condition)) {
		return nil, err
	}
	return &y, nil
}

// increase is ΔE for a block. It is infinite where rounding leaves the pivot singular.
func (b *band) increase(block int) float64 {
	lo, hi := b.p.columns(block)
	rows, _ := b.w.Dims()
	w := b.w.Slice(0, rows, lo, hi)
	y, err := b.solve(block, w.T())
	if err != nil {
		return math.Inf(1)
	}
	sum := 0.0
	for r := range rows {
		for i := range hi - lo {
			sum += w.At(r, i) * y.At(i, r)
		}
	}
	return sum / 2
}

// choose finds the next block to remove.
func (b *band) choose(mayRemove func(column int) bool) {
	b.next, b.cost = -1, math.Inf(1)
	for block, gone := range b.removed {
		if gone || !mayRemove(block) {
			continue
		}
		if cost := b.increase(block) / float64(b.size(block)); cost < b.cost {
			b.next, b.cost = block, cost
		}
	}
}

// remove removes a block and changes the remaining weights and the inverse.
func (b *band) remove(block int) error {
	lo, hi := b.p.columns(block)
	rows, columns := b.w.Dims()
	across := mat.DenseCopyOf(b.inverse.Slice(lo, hi, 0, columns)) // H⁻¹_{B,:}
	y, err := b.solve(block, b.w.Slice(0, rows, lo, hi).T())
	if err != nil {
		return err
	}
	z, err := b.solve(block, across)
	if err != nil {
		return err
	}
	var step, change mat.Dense
	step.Mul(y.T(), across)
	b.w.Sub(b.w, &step)
	change.Mul(across.T(), z)
	b.inverse.Sub(b.inverse, &change)
	b.removed[block] = true
	for gone := range b.removed { // what rounding leaves of zeros
		if b.removed[gone] {
			b.clear(b.p.columns(gone))
		}
	}
	return nil
}

// clear sets removed columns of the weights, and their rows and columns of the inverse, to 0.
func (b *band) clear(lo, hi int) {
	rows, columns := b.w.Dims()
	b.w.Slice(0, rows, lo, hi).(*mat.Dense).Zero()
	b.inverse.Slice(lo, hi, 0, columns).(*mat.Dense).Zero()
	b.inverse.Slice(0, columns, lo, hi).(*mat.Dense).Zero()
}

// ceilDiv is ⌈a/b⌉.
func ceilDiv(a, b int) int { return (a + b - 1) / b }
