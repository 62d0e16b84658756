package mutate

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Equal seeds give equal files, and most files differ from their origin.
func TestFile(t *testing.T) {
	seeds := [][]byte{bytes.Repeat([]byte("abcdefgh"), 50), bytes.Repeat([]byte{7}, 300), {1}}
	a, b := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
	same := 0
	for range 10_000 {
		x, y := File(a, seeds), File(b, seeds)
		if !bytes.Equal(x, y) {
			t.Fatal("two files of one seed differ")
		}
		for _, s := range seeds {
			if bytes.Equal(x, s) {
				same++
			}
		}
	}
	if same > 1000 {
		t.Errorf("%d of 10000 files are undamaged", same)
	}
	if !bytes.Equal(seeds[1], bytes.Repeat([]byte{7}, 300)) {
		t.Error("a seed was changed")
	}
}
