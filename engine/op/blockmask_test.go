package op

import (
	"errors"
	"testing"
)

func TestBlockMaskOf(t *testing.T) {
	s := Shape{20, 33, 1, 2, 3}
	w := make([]float32, s.Size())
	at := func(o, c, tap int) *float32 { return &w[(o*33+c)*6+tap] }
	*at(3, 17, 5), *at(19, 32, 0), *at(16, 0, 2) = 1, -1, 1e-30
	if k := BlockMaskOf(w, s); k != "010"+"101" {
		t.Errorf("kept %q", string(k))
	}
	for o := range 20 {
		for c := range 33 {
			*at(o, c, 1) = 1
		}
	}
	k := BlockMask("010" + "101")
	if all := BlockMaskOf(w, s); all != "" || all.String() != "all" || BlockMaskOf(w, Shape{len(w)}) != "" {
		t.Errorf("kept %q of a filter without zero blocks", string(all))
	}
	k.Clear(w, s)
	for o := range 20 {
		for c := range 33 {
			if want := k.Keeps(o, c, 33); (*at(o, c, 1) == 1) != want {
				t.Fatalf("filter %d %d after Clear: %v, kept %v", o, c, *at(o, c, 1), want)
			}
		}
	}
	// 16 filters of 16 channels, and 4 of 16 and 1
	if n := k.countPairs(s, 0, 33); n != 16*16+4*17 {
		t.Errorf("%d pairs are kept", n)
	}
	if n := k.countPairs(s, 15, 3); n != 16*2+4*1 {
		t.Errorf("%d pairs of channels 15 to 17 are kept", n)
	}
	if kept, of := k.Count(); kept != 3 || of != 6 || k.Check(s) != nil {
		t.Errorf("%d of %d are kept, %v", kept, of, k.Check(s))
	}
	for _, wrong := range []BlockMask{"01010", "01010x"} {
		if err := wrong.Check(s); !errors.Is(err, ErrShape) {
			t.Errorf("%q: %v", string(wrong), err)
		}
	}
}

func TestBlockMaskOr(t *testing.T) {
	for _, c := range [][3]BlockMask{{"0011", "0101", "0111"}, {"0011", "1100", ""}, {"", "0101", ""}, {"0101", "", ""}} {
		if got := c[0].Or(c[1]); got != c[2] {
			t.Errorf("%q or %q: %q, want %q", string(c[0]), string(c[1]), string(got), string(c[2]))
		}
	}
}

// FLOPs equal the number of operations of the reference kernel.
func TestBlockMaskFLOPs(t *testing.T) {
	x, w := Shape{1, 40, 2, 5, 6}, Shape{20, 40, 3, 3, 3}
	a := Conv{Pad: Same(3, 3, 3), Mask: "010" + "101"}.withDefaults()
	y, err := convShape(x, w, a)
	if err != nil {
		t.Fatal(err)
	}
	all := a
	all.Mask = ""
	// 16·16 + 4·(16 + 8) of 20·40 pairs
	if got, dense := convFLOPs(x, w, y, a), convFLOPs(x, w, y, all); got*800 != dense*352 {
		t.Errorf("%d of %d operations", got, dense)
	}
	part := FusedConvGrad{ConvGrad: convGrad(a, Shape{1, 16, 2, 5, 6}), Lo: 16}
	// of the middle block of the source: 16·16 of 20·16
	one := part
	one.Mask = ""
	f := convFusedGradData.FLOPs
	if got, dense := f([]Shape{w, y}, part.To, part), f([]Shape{w, y}, one.To, one); got*320 != dense*256 {
		t.Errorf("%d of %d operations for a part of the channels", got, dense)
	}
}
