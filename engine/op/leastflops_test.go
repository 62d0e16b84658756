package op

import (
	"math"
	"testing"
)

// TestMinimalProducts: the closed formula for F(2, 3), 16 products of 36 in two dimensions, and F(4, 3), 36 of 144.
func TestMinimalProducts(t *testing.T) {
	for _, c := range []struct{ m, r, d, want int }{{2, 3, 1, 4}, {2, 3, 2, 16}, {2, 3, 3, 64}, {4, 3, 1, 6}, {4, 3, 2, 36}, {4, 3, 3, 216}, {1, 3, 2, 9}} {
		if got := MinimalProducts(c.m, c.r, c.d); got != c.want {
			t.Errorf("F(%d, %d) in %d dimensions: %d products, want %d", c.m, c.r, c.d, got, c.want)
		}
	}
}

// TestLeastFLOPs: counts by hand. All passes of a convolution have the same products.
func TestLeastFLOPs(t *testing.T) {
	wide := func(n int) [3]Pad { return [3]Pad{{}, {Size: n, Periodic: true}, {Size: n, Periodic: true}} }
	same := Same(3, 3, 3)
	same[1].Periodic, same[2].Periodic = true, true
	for _, c := range []struct {
		name    string
		x, w, y Shape
		a       Conv
		want    float64
		bf16    float64 // with products of bfloat16; 0: the same
	}{
		// 2 · 36/16 products and 36/16 + 1 values of tiles for each of 64 points
		{"flat", Shape{1, 8, 1, 8, 8}, Shape{8, 8, 1, 3, 3}, Shape{1, 8, 1, 8, 8}, Conv{Pad: wide(1)}, 64 * (2*8*8*2.25 + 8*2.25 + 8), 0},
		// two levels with padding: 3 products for 4
		{"pair", Shape{1, 8, 2, 8, 8}, Shape{8, 8, 3, 3, 3}, Shape{1, 8, 2, 8, 8}, Conv{Pad: same}, 64 * (2*8*8*3*2.25 + 2*(8*2.25+8)), 0},
		// F(4, 5): 64 products for 4·4 results; F(5, 4) in 2·2 parts: 4·64 for 5·5. Of bfloat16 F(4, 3) in 2·2 parts, 4·36 for 4·4, and in 3·3
		{"five", Shape{1, 8, 1, 8, 8}, Shape{8, 8, 1, 5, 5}, Shape{1, 8, 1, 8, 8}, Conv{Pad: wide(2)}, 64 * (2*8*8*4 + 8*4 + 8), 64 * (2*8*8*9 + 8*2.25 + 8)},
		{"seven", Shape{1, 8, 1, 10, 10}, Shape{8, 8, 1, 7, 7}, Shape{1, 8, 1, 10, 10}, Conv{Pad: wide(3)}, 100 * (2*8*8*10.24 + 8*2.56 + 8), 100 * (2*8*8*20.25 + 8*2.25 + 8)},
		// F(4, 3) in three dimensions: 216 products for 4·4·4 results
		{"cube", Shape{1, 8, 4, 4, 4}, Shape{8, 8, 3, 3, 3}, Shape{1, 8, 4, 4, 4}, Conv{Pad: same}, 2*8*8*216 + 64*(8*2.25+8), 0},
		// few channels: the transforms take longer than the products save
		{"thin", Shape{1, 1, 1, 4, 4}, Shape{1, 1, 1, 3, 3}, Shape{1, 1, 1, 4, 4}, Conv{Pad: wide(1)}, min(2*144, 2*36+16*2.25+16), 0},
		// a stride has the direct form only
		{"stride", Shape{1, 8, 1, 8, 8}, Shape{8, 8, 1, 2, 2}, Shape{1, 8, 1, 4, 4}, Conv{Stride: [3]int{1, 2, 2}}, 2 * 8 * 8 * 4 * 16, 0},
		// zero padding: 22 taps of 24 along an axis of 8 points
		{"padded", Shape{1, 1, 1, 8, 8}, Shape{64, 1, 1, 3, 1}, Shape{1, 64, 1, 8, 8}, Conv{Pad: [3]Pad{{}, {Size: 1}, {}}}, 2 * 64 * 22 * 8, 0},
	} {
		c.a = c.a.withDefaults()
		for _, p := range []struct {
			op    string
			in    []Shape
			out   Shape
			attrs any
		}{
			{"conv3d", []Shape{c.x, c.w}, c.y, c.a},
			{"conv3d_grad_data", []Shape{c.w, c.y}, c.x, ConvGrad{c.a, c.x}},
			{"conv3d_grad_filter", []Shape{c.x, c.y}, c.w, ConvGrad{c.a, c.w}},
		} {
			for _, bf16 := range []bool{false, true} {
				want := c.want
				if bf16 && c.bf16 > 0 {
					want = c.bf16
				}
				if got := LeastFLOPs(Find(p.op), p.in, p.out, p.attrs, bf16); math.Abs(float64(got)-want) > 1 {
					t.Errorf("%s, %s, bfloat16 %v: %d, want %g", c.name, p.op, bf16, got, want)
				}
			}
		}
	}
	add := Find("add")
	if s := (Shape{2, 3}); LeastFLOPs(add, []Shape{s, s}, s, nil, false) != add.FLOPs([]Shape{s, s}, s, nil) {
		t.Error("a sum has another bound than its operations")
	}
}

// TestConvWork: both forms of a convolution by hand, and the same for all its passes; a sum is none.
func TestConvWork(t *testing.T) {
	x, w, y := Shape{1, 8, 1, 8, 8}, Shape{4, 8, 1, 3, 3}, Shape{1, 4, 1, 8, 8}
	a := Conv{Pad: [3]Pad{{}, {Size: 1, Periodic: true}, {Size: 1, Periodic: true}}}.withDefaults()
	want := ConvWork{Direct: 2 * 9 * 8 * 4 * 64, Products: 2 * 2.25 * 8 * 4 * 64, TileProducts: 2 * 2.25 * 8 * 4 * 64, Rounding: 1, Tiles: 8 * 2.25 * 64, Results: 4 * 64, Filter: 9 * 8 * 4, In: 8, Out: 4, IsMinimal: true}
	for _, p := range []struct {
		op    string
		in    []Shape
		out   Shape
		attrs any
	}{
		{"conv3d", []Shape{x, w}, y, a},
		{"conv3d_grad_data", []Shape{w, y}, x, ConvGrad{a, x}},
		{"conv3d_grad_filter", []Shape{x, y}, w, ConvGrad{a, w}},
	} {
		got, ok := ConvWorkOf(Find(p.op), p.in, p.out, p.attrs, false)
		if !ok || math.Abs(got.Products-want.Products) > 1e-6 || math.Abs(got.Direct-want.Direct) > 1e-6 || math.Abs(got.TileProducts-want.TileProducts) > 1e-6 {
			t.Errorf("%s: %+v, want %+v", p.op, got, want)
		}
		if got.Products, got.Direct, got.TileProducts = want.Products, want.Direct, want.TileProducts; got != want {
			t.Errorf("%s: %+v, want %+v", p.op, got, want)
		}
	}
	// One tile of 4×4 points for a field of 1×2, for each of the levels and taps that are no padding.
	small := Shape{1, 8, 2, 1, 2}
	got, _ := ConvWorkOf(Find("conv3d"), []Shape{small, {4, 8, 3, 3, 3}}, Shape{1, 4, 2, 1, 2}, Conv{Pad: Same(3, 3, 3)}.withDefaults(), false)
	if math.Abs(got.TileProducts-2*8*4*4*36) > 1e-6 || got.Rounding != 8 {
		t.Errorf("a field within a tile: %+v", got)
	}
	if _, ok := ConvWorkOf(Find("add"), []Shape{x, x}, x, nil, false); ok {
		t.Error("a sum has the work of a convolution")
	}
}
