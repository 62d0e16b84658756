package optim

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// pair is one of two ranks. It holds the moments of the other one for GatherToRoot.
type pair struct {
	Ranks // none: sums and gathering are not requested
	rank  int
	owner []int
	other func() []float32
}

func (p *pair) Rank() int     { return p.rank }
func (p *pair) Size() int     { return 2 }
func (p *pair) Owners() []int { return p.owner }

func (p *pair) GatherToRoot(x []float32, sizes []int, put func(rank int, x []float32)) error {
	if p.rank == 0 {
		put(0, x)
		put(1, p.other()[:sizes[1]])
	}
	return nil
}

// TestShares: two ranks together have as many moments as one process; each restores its part of a
// complete state, and State gives the complete one again.
func TestShares(t *testing.T) {
	s := big(t)
	owner := []int{0, 1, 0, 1, 1} // a parameter of three chunks and two of one
	if n := len(Chunks(s)); n != len(owner) {
		t.Fatalf("%d pieces, want %d", n, len(owner))
	}
	ranks := []*pair{{rank: 0, owner: owner}, {rank: 1, owner: owner}}
	var both []*Optimizer
	for _, r := range ranks {
		p, err := New(s, Options{Kind: AdamW, Ranks: r})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		both = append(both, p)
		value := func(name string, n int) ([]float32, error) {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(i) + float32(name[0])/256
			}
			return x, nil
		}
		if err := p.Restore(7, value); err != nil || p.Steps() != 7 {
			t.Fatalf("after %d steps: %v", p.Steps(), err)
		}
	}
	m0, m1 := both[0].arena.m, both[1].arena.m
	if len(m0)+len(m1) != len(s.Params()) || len(m0) != len(both[0].arena.v) || len(m0) != chunkLen+2240 {
		t.Errorf("%d and %d moments of %d parameters", len(m0), len(m1), len(s.Params()))
	}
	calls := 0
	ranks[0].other = func() []float32 {
		calls++
		return [][]float32{m1, both[1].arena.v}[calls-1]
	}
	state, err := both[0].State()
	if err != nil || len(state) != 6 {
		t.Fatalf("%d tensors, %v", len(state), err)
	}
	for _, x := range state {
		for i, v := range x.Values {
			if v != float32(i)+float32(x.Name[0])/256 {
				t.Fatalf("%s[%d] is %v", x.Name, i, v)
			}
		}
	}
	names, err := both[1].State()
	if err != nil || len(names) != len(state) {
		t.Fatalf("rank 1 has %d tensors of the state, %v", len(names), err)
	}
	for i, x := range names {
		if x.Values != nil || x.Name != state[i].Name || !x.Shape.Equal(state[i].Shape) {
			t.Errorf("rank 1 has %q %v, want %q %v without values", x.Name, x.Shape, state[i].Name, state[i].Shape)
		}
	}
	if _, err := New(s, Options{Ranks: &pair{owner: owner[1:]}}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("owners of other pieces: %v", err)
	}
}
