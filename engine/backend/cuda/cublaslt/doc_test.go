package cublaslt

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	good := Product{M: 4, N: 5, K: 6, Batch: 2, NextA: 24, NextB: 0, NextD: 20}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		set  func(*Product)
		want string
	}{
		{func(p *Product) { p.K = 0 }, "from 1"},
		{func(p *Product) { p.M = 1 << 31 }, "from 1"},
		{func(p *Product) { p.Type = 3 }, "types 3"},
		{func(p *Product) { p.Result = BFloat16 }, "bfloat16 of float32"},
		{func(p *Product) { p.Type, p.Result = Float16, BFloat16 }, "bfloat16 of float16"},
		{func(p *Product) { p.Type, p.TF32 = Float16, true }, "TF32"},
		{func(p *Product) { p.Batch = -1 }, "-1 of them"},
		{func(p *Product) { p.RowA = 5 }, "matrix A"},
		{func(p *Product) { p.TransB, p.RowB = true, 5 }, "matrix B"},
		{func(p *Product) { p.NextB = -1 }, "matrix B"},
		{func(p *Product) { p.NextD = 19 }, "overlap"},
	} {
		p := good
		test.set(&p)
		if err := p.check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want an error with %q", p, err, test.want)
		}
	}
}

// Names are read as they are written, and nothing else is read.
func TestName(t *testing.T) {
	for _, name := range []string{"algorithm 0", "algorithm 21, tile 5, split 3, reduction 2, swizzle 1, option 4, stages 7, inner 8, cluster 2"} {
		if s, err := parse(name); err != nil || s.String() != name {
			t.Errorf("%q: got %v, %v", name, s, err)
		}
	}
	for _, name := range []string{"", "algorithm", "algorithm x", "tile 5", "algorithm 1, tile 0", "algorithm 1, split 2, tile 3", "algorithm 1, colour 2", "algorithm -1", "algorithm 99999999999"} {
		if s, err := parse(name); err == nil {
			t.Errorf("%q: got %v, want an error", name, s)
		}
	}
}
