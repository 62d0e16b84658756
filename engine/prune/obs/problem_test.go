package obs

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// near checks a value within a relative tolerance.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
		t.Errorf("%s: %.12g, want %.12g", what, got, want)
	}
}

// problem is a random layer whose Hessian is the Gram matrix of correlated inputs.
func problem(seed uint64, rows, columns int) *Problem {
	r := rand.New(rand.NewPCG(seed, 1))
	x := mat.NewDense(columns, 3*columns, nil)
	for i := range columns {
		for j := range 3 * columns {
			v := r.NormFloat64()
			if i > 0 {
				v += 0.8 * x.At(i-1, j)
			}
			x.Set(i, j, v)
		}
	}
	h := mat.NewSymDense(columns, nil)
	h.SymOuterK(1/float64(3*columns), x)
	w := mat.NewDense(rows, columns, nil)
	for i := range rows {
		for j := range columns {
			w.Set(i, j, r.NormFloat64())
		}
	}
	return &Problem{Weights: w, Hessian: h, Removable: columns, BlockRows: 2, BlockCols: 3}
}

// errorOf is ½ Σ (w − v)ᵀ H (w − v).
func errorOf(h *mat.SymDense, w, v *mat.Dense) (sum float64) {
	var d, hd mat.Dense
	d.Sub(w, v)
	hd.Mul(&d, h)
	rows, columns := d.Dims()
	for r := range rows {
		for c := range columns {
			sum += d.At(r, c) * hd.At(r, c) / 2
		}
	}
	return sum
}

// least minimises the error over rows of which some columns are 0, by the normal equations.
func least(h *mat.SymDense, v mat.Matrix, zero func(c int) bool) *mat.Dense {
	rows, columns := v.Dims()
	var kept []int
	for c := range columns {
		if !zero(c) {
			kept = append(kept, c)
		}
	}
	out := mat.NewDense(rows, columns, nil)
	if len(kept) == 0 {
		return out
	}
	a, b := mat.NewDense(len(kept), len(kept), nil), mat.NewDense(len(kept), rows, nil)
	for i, c := range kept {
		for j, d := range kept {
			a.Set(i, j, h.At(c, d))
		}
		for r := range rows {
			for d := range columns {
				b.Set(i, r, b.At(i, r)+h.At(c, d)*v.At(r, d))
			}
		}
	}
	var x mat.Dense
	if err := x.Solve(a, b); err != nil {
		panic(err)
	}
	for i, c := range kept {
		for r := range rows {
			out.Set(r, c, x.At(i, r))
		}
	}
	return out
}

// TestFirstRemoval compares the first removal with every single block: its weights are the minimum of the
// quadratic error without the block, and no block has a smaller minimum for each of its weights.
func TestFirstRemoval(t *testing.T) {
	for seed := range uint64(5) {
		p := problem(seed, 5, 8) // the last blocks are smaller
		v := mat.DenseCopyOf(p.Weights)
		best, at, weights := math.Inf(1), Block{}, 1
		for row := range 3 {
			for column := range 3 {
				lo, hi := row*2, min(row*2+2, 5)
				part := v.Slice(lo, hi, 0, 8)
				w := least(p.Hessian, part, func(c int) bool { return c/3 == column })
				size := (hi - lo) * min(3, 8-column*3)
				if e := errorOf(p.Hessian, w, mat.DenseCopyOf(part)); e/float64(size) < best/float64(weights) {
					best, at, weights = e, Block{row, column}, size
				}
			}
		}
		removed, err := p.Remove(weights)
		if err != nil || len(removed) != 1 || removed[0].Block != at {
			t.Fatalf("removed %v, %v, want %v", removed, err, at)
		}
		near(t, "predicted increase", removed[0].Increase, best)
		near(t, "error", errorOf(p.Hessian, p.Weights, v), best)
	}
}

// TestClosedForm removes one weight of two: w = (w₀, w₁) becomes (0, w₁ + w₀·h₀₁/h₁₁) with the error
// ½ w₀² (h₀₀ − h₀₁²/h₁₁).
func TestClosedForm(t *testing.T) {
	p := &Problem{Weights: mat.NewDense(1, 2, []float64{1, 2}), Hessian: mat.NewSymDense(2, []float64{2, 1, 1, 4}), Removable: 1, BlockRows: 1, BlockCols: 1}
	removed, err := p.Remove(2)
	if err != nil || len(removed) != 1 {
		t.Fatalf("removed %v, %v, want the only block", removed, err)
	}
	near(t, "increase", removed[0].Increase, 0.5*(2-0.25))
	near(t, "removed weight", p.Weights.At(0, 0), 0)
	near(t, "remaining weight", p.Weights.At(0, 1), 2.25)
}

// TestSequence checks that after several removals the weights are the minimum under their zeros, that increases sum up
// to the error, and that zeros are exact.
func TestSequence(t *testing.T) {
	p := problem(9, 6, 12)
	v := mat.DenseCopyOf(p.Weights)
	removed, err := p.Remove(8 * 6)
	if err != nil || len(removed) != 8 {
		t.Fatalf("removed %v, %v", removed, err)
	}
	sum := 0.0
	gone := map[Block]bool{}
	for _, r := range removed {
		sum += r.Increase
		gone[r.Block] = true
	}
	near(t, "sum of increases", sum, errorOf(p.Hessian, p.Weights, v))
	for row := range 3 {
		w := least(p.Hessian, v.Slice(row*2, row*2+2, 0, 12), func(c int) bool { return gone[Block{row, c / 3}] })
		for r := range 2 {
			for c := range 12 {
				near(t, "weight", p.Weights.At(row*2+r, c), w.At(r, c))
				if gone[Block{row, c / 3}] && p.Weights.At(row*2+r, c) != 0 {
					t.Errorf("weight %d %d is %g", row*2+r, c, p.Weights.At(row*2+r, c))
				}
			}
		}
	}
	// Removing by size and leaving the others as they are is worse.
	sizes := make([]Removal, 0, 12)
	for row := range 3 {
		for column := range 4 {
			sizes = append(sizes, Removal{Block: Block{row, column}, Increase: mat.Norm(v.Slice(row*2, row*2+2, column*3, column*3+3), 2)})
		}
	}
	slices.SortFunc(sizes, func(a, b Removal) int { return int(math.Copysign(1, a.Increase-b.Increase)) })
	w := mat.DenseCopyOf(v)
	for _, s := range sizes[:8] {
		w.Slice(s.Row*2, s.Row*2+2, s.Column*3, s.Column*3+3).(*mat.Dense).Zero()
	}
	if bySize := errorOf(p.Hessian, w, v); sum >= bySize {
		t.Errorf("error %g, by size %g", sum, bySize)
	}
}

// TestFit checks that fitting without some blocks gives the weights of removing these one after the other, whatever
// their order, and exact zeros.
func TestFit(t *testing.T) {
	for seed := range uint64(3) {
		p := problem(seed, 5, 8)
		q := &Problem{Weights: mat.DenseCopyOf(p.Weights), Hessian: p.Hessian, Removable: 7, BlockRows: 2, BlockCols: 3}
		p.Removable = 7
		removed, err := p.Remove(18)
		if err != nil || len(removed) < 3 {
			t.Fatalf("removed %v, %v", removed, err)
		}
		var blocks []Block
		for _, r := range slices.Backward(removed) {
			blocks = append(blocks, r.Block)
		}
		if err := q.Fit(blocks); err != nil {
			t.Fatal(err)
		}
		for r := range 5 {
			for c := range 8 {
				near(t, "weight", q.Weights.At(r, c), p.Weights.At(r, c))
				if slices.Contains(blocks, Block{r / 2, c / 3}) && c < 7 && q.Weights.At(r, c) != 0 {
					t.Errorf("weight %d %d is %g", r, c, q.Weights.At(r, c))
				}
			}
		}
	}
}

// TestRowWeights has two rows with the Hessian 1 and the weights 1, 2 and 3, 4: costs are ½ w². The second row counts a hundredth:
// its blocks go first.
func TestRowWeights(t *testing.T) {
	p := &Problem{Weights: mat.NewDense(2, 2, []float64{1, 2, 3, 4}), Hessian: mat.NewSymDense(2, []float64{1, 0, 0, 1}), Removable: 2, BlockRows: 1, BlockCols: 1, RowWeights: []float64{1, 0.01}}
	removed, err := p.Remove(3)
	want := []Removal{{Block{1, 0}, 1, 0.045}, {Block{1, 1}, 1, 0.08}, {Block{0, 0}, 1, 0.5}}
	if err != nil || len(removed) != 3 {
		t.Fatalf("removed %v, %v, want %v", removed, err, want)
	}
	for i, r := range removed {
		if r.Block != want[i].Block || r.Weights != 1 {
			t.Errorf("removed %v, want %v", removed, want)
		}
		near(t, "increase", r.Increase, want[i].Increase)
	}
}

// TestKeptBlocks checks that columns beyond the removable ones stay, and a block in each block of columns if that is
// wanted.
func TestKeptBlocks(t *testing.T) {
	for _, keep := range []bool{false, true} {
		p := problem(3, 4, 7)
		p.Removable, p.KeepColumns = 6, keep
		removed, err := p.Remove(4*6 + 5)
		perColumn := map[int]int{}
		for _, r := range removed {
			perColumn[r.Column]++
		}
		if want := map[bool]int{false: 2, true: 1}[keep]; err != nil || perColumn[0] != want || perColumn[1] != want {
			t.Errorf("keep %v: removed %v, %v, want %d of each column", keep, removed, err, want)
		}
		for r := range 4 {
			if p.Weights.At(r, 6) == 0 {
				t.Errorf("row %d lost a weight that belongs to no block", r)
			}
		}
	}
}

func TestSingularHessian(t *testing.T) {
	p := problem(3, 4, 7)
	p.Hessian.SetSym(0, 0, -1)
	if _, err := p.Remove(1); !errors.Is(err, ErrSingular) {
		t.Errorf("%v, want %v", err, ErrSingular)
	}
}
