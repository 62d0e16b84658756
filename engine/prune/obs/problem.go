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
	// RowWeights are factors of the errors of rows in the costs of blocks, each of the same number of consecutive rows; nil means 1.
	// They decide which blocks go, and change no other weights.
	RowWeights []float64
	// KeepColumns keeps a block in each block of columns: the inputs of a network.
	KeepColumns bool
}

// Block is a block of a Problem, by its indices among the blocks of rows and of columns.
type Block struct{ Row, Column int }

// Removal is a removed block with the increase of E that it causes, rows weighted by RowWeights.
type Removal struct {
	Block
	Weights  int // of the block
	Increase float64
}

// ErrSingular reports a Hessian that is not positive definite.
var ErrSingular = errors.New("the Hessian is not positive definite; use more damping")

// band is the rows of one block of rows. Their remaining weights are in the same columns, and have with these the inverse
// of the Hessian of the remaining weights.
type band struct {
	p       *Problem
	row     int        // first row
	w       *mat.Dense // [rows, remaining columns]
	inverse *mat.Dense // [remaining columns, remaining columns]
	blocks  []int      // remaining blocks of columns
	next    int        // index in blocks of the one whose removal increases E least for each weight; −1 for none
	cost    float64    // that increase for each weight
}

// step adds gradient · H⁻¹ to the weights: the minimum of an error with the Hessian H whose gradient is −gradient at the
// weights.
//
// Errors: ErrSingular.
func (p *Problem) step(gradient *mat.Dense) error {
	var factor mat.Cholesky
	if !factor.Factorize(p.Hessian) {
		return ErrSingular
	}
	var change mat.Dense
	if err := factor.SolveTo(&change, gradient.T()); err != nil && !errors.As(err, new(mat.Condition)) {
		return err
	}
	p.Weights.Add(p.Weights, change.T())
	return nil
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
// Cost: O(remaining columns² · BlockCols) for each removal, and rows · BlockCols² + BlockCols³ for each candidate.
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
	perColumn := slices.Repeat([]int{ceilDiv(rows, p.BlockRows)}, ceilDiv(p.Removable, p.BlockCols)) // remaining blocks
	mayRemove := func(column int) bool { return !p.KeepColumns || perColumn[column] > 1 }
	var bands []*band
	for lo := 0; lo < rows; lo += p.BlockRows {
		b := &band{p: p, row: lo, w: mat.DenseCopyOf(p.Weights.Slice(lo, min(lo+p.BlockRows, rows), 0, columns)), inverse: mat.DenseCopyOf(&inverse)}
		for block := range perColumn {
			b.blocks = append(b.blocks, block)
		}
		b.choose(mayRemove)
		bands = append(bands, b)
	}
	var out []Removal
	for {
		best := -1
		for i, b := range bands {
			if b.next >= 0 && !mayRemove(b.blocks[b.next]) { // another band removed the last but one of its column
				b.choose(mayRemove)
			}
			if b.next >= 0 && (best < 0 || b.cost < bands[best].cost) {
				best = i
			}
		}
		size := 0
		if best >= 0 {
			size = bands[best].size(bands[best].next)
		}
		if budget -= size; best < 0 || budget < 0 {
			for _, b := range bands {
				b.write()
			}
			return out, nil
		}
		b := bands[best]
		block := b.blocks[b.next]
		out = append(out, Removal{Block{best, block}, size, b.cost * float64(size)})
		perColumn[block]--
		if err := b.remove(b.next); err != nil {
			return nil, err
		}
		b.choose(mayRemove)
	}
}

// size is the number of weights of a remaining block.
func (b *band) size(at int) int {
	lo, hi := b.columns(at)
	rows, _ := b.w.Dims()
	return rows * (hi - lo)
}

// columns is the range of remaining columns of a remaining block. Only the last block of a problem may be smaller.
func (b *band) columns(at int) (lo, hi int) {
	lo = at * b.p.BlockCols
	return lo, lo + b.p.width(b.blocks[at])
}

// width is the number of columns of a block.
func (p *Problem) width(block int) int { return min(p.BlockCols, p.Removable-block*p.BlockCols) }

// solve returns (H⁻¹_BB)⁻¹ x for a remaining block.
//
// Errors: ErrSingular.
func (b *band) solve(at int, x mat.Matrix) (*mat.Dense, error) {
	lo, hi := b.columns(at)
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

// increase is ΔE for a remaining block. It is infinite where rounding leaves the pivot singular.
func (b *band) increase(at int) float64 {
	lo, hi := b.columns(at)
	rows, _ := b.w.Dims()
	w := b.w.Slice(0, rows, lo, hi)
	y, err := b.solve(at, w.T())
	if err != nil {
		return math.Inf(1)
	}
	sum := 0.0
	for r := range rows {
		part := 0.0
		for i := range hi - lo {
			part += w.At(r, i) * y.At(i, r)
		}
		if b.p.RowWeights != nil {
			part *= b.p.RowWeights[(b.row+r)*len(b.p.RowWeights)/b.p.Weights.RawMatrix().Rows]
		}
		sum += part
	}
	return sum / 2
}

// choose finds the next block to remove.
func (b *band) choose(mayRemove func(column int) bool) {
	b.next, b.cost = -1, math.Inf(1)
	for at, block := range b.blocks {
		if !mayRemove(block) {
			continue
		}
		if cost := b.increase(at) / float64(b.size(at)); cost < b.cost {
			b.next, b.cost = at, cost
		}
	}
}

// remove removes a remaining block and changes the other weights and the inverse.
func (b *band) remove(at int) error {
	lo, hi := b.columns(at)
	rows, columns := b.w.Dims()
	across := without(b.inverse.Slice(lo, hi, 0, columns).(*mat.Dense), 0, 0, lo, hi) // H⁻¹_{B,:}
	if across.IsEmpty() {
		b.w, b.inverse, b.blocks = across, across, nil
		return nil
	}
	y, err := b.solve(at, b.w.Slice(0, rows, lo, hi).T())
	if err != nil {
		return err
	}
	z, err := b.solve(at, across)
	if err != nil {
		return err
	}
	b.w, b.inverse = without(b.w, 0, 0, lo, hi), without(b.inverse, lo, hi, lo, hi)
	b.blocks = slices.Delete(b.blocks, at, at+1)
	var step, change mat.Dense
	step.Mul(y.T(), across)
	b.w.Sub(b.w, &step)
	change.Mul(across.T(), z)
	b.inverse.Sub(b.inverse, &change)
	return nil
}

// without copies a matrix without a range of rows and one of columns. The result is empty if nothing remains.
func without(m *mat.Dense, rowLo, rowHi, lo, hi int) *mat.Dense {
	rows, columns := m.Dims()
	if columns == hi-lo || rows == rowHi-rowLo {
		return new(mat.Dense)
	}
	out := mat.NewDense(rows-(rowHi-rowLo), columns-(hi-lo), nil)
	for r := range rows {
		to := r
		switch {
		case r >= rowHi:
			to -= rowHi - rowLo
		case r >= rowLo:
			continue
		}
		row := out.RawRowView(to)
		copy(row, m.RawRowView(r)[:lo])
		copy(row[lo:], m.RawRowView(r)[hi:])
	}
	return out
}

// write writes the weights to the problem, with zeros in removed blocks.
func (b *band) write() {
	_, columns := b.p.Weights.Dims()
	var from []int // columns of the remaining weights
	for _, block := range b.blocks {
		for i := range b.p.width(block) {
			from = append(from, block*b.p.BlockCols+i)
		}
	}
	for c := b.p.Removable; c < columns; c++ {
		from = append(from, c)
	}
	for r := range min(b.p.BlockRows, b.p.Weights.RawMatrix().Rows-b.row) {
		row := b.p.Weights.RawRowView(b.row + r)
		clear(row)
		for i, c := range from {
			row[c] = b.w.At(r, i)
		}
	}
}

// ceilDiv is ⌈a/b⌉.
func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Fit sets blocks to 0, and the other weights to the minimum of E:
//
//	w_K = v_K + H_KK⁻¹ H_KR v_R
//
// with the remaining columns K and the removed ones R of each block of rows. The result is that of removing the blocks one after the
// other.
//
// Errors: ErrSingular.
// Cost: O(remaining columns³) for each block of rows.
func (p *Problem) Fit(removed []Block) error {
	rows, columns := p.Weights.Dims()
	for row := range ceilDiv(rows, p.BlockRows) {
		gone := make([]bool, columns)
		for _, b := range removed {
			if b.Row == row {
				lo := b.Column * p.BlockCols
				for c := range p.width(b.Column) {
					gone[lo+c] = true
				}
			}
		}
		lo := row * p.BlockRows
		if err := p.fit(p.Weights.Slice(lo, min(lo+p.BlockRows, rows), 0, columns).(*mat.Dense), gone); err != nil {
			return err
		}
	}
	return nil
}

// fit is Fit for rows without some columns.
func (p *Problem) fit(w *mat.Dense, gone []bool) error {
	var keep, drop []int
	for c, g := range gone {
		if g {
			drop = append(drop, c)
		} else {
			keep = append(keep, c)
		}
	}
	rows, _ := w.Dims()
	if len(keep) > 0 && len(drop) > 0 {
		h, across, v := mat.NewSymDense(len(keep), nil), mat.NewDense(len(keep), len(drop), nil), mat.NewDense(len(drop), rows, nil)
		for i, c := range keep {
			for j, d := range keep[:i+1] {
				h.SetSym(i, j, p.Hessian.At(c, d))
			}
			for j, d := range drop {
				across.Set(i, j, p.Hessian.At(c, d))
			}
		}
		for i, c := range drop {
			for r := range rows {
				v.Set(i, r, w.At(r, c))
			}
		}
		var factor mat.Cholesky
		if !factor.Factorize(h) {
			return ErrSingular
		}
		var change mat.Dense
		change.Mul(across, v)
		if err := factor.SolveTo(&change, &change); err != nil && !errors.As(err, new(mat.Condition)) {
			return err
		}
		for i, c := range keep {
			for r := range rows {
				w.Set(r, c, w.At(r, c)+change.At(i, r))
			}
		}
	}
	for _, c := range drop {
		for r := range rows {
			w.Set(r, c, 0)
		}
	}
	return nil
}
