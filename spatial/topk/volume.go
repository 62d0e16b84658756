package topk

import "math"

// Method is a way to sum sparse gradients over ranks.
type Method int

// The methods.
const (
	Dense     Method = iota // halving and doubling of all values
	AllGather               // all-gather of the selected entries (TopkA)
	Tree                    // pairs of ranks merge and cut, along a tree (gTopk)
	Dynamic                 // sparse reduce-scatter and all-gather without cut (TopkDSA)
	Regions                 // this package (Ok-Topk)
)

// Volume returns the least and the largest number of words of 4 bytes that a rank of p
// sends to sum vectors of n values, of which k are selected; an entry has two words.
// They depend on how many of the selected indices differ between ranks. Headers are not
// included.
//
// Unit: words.
// Source: Li and Hoefler 2022, arXiv:2201.07598.
func Volume(m Method, n, k float64, p int) (least, most float64) {
	ranks := float64(p)
	others := (ranks - 1) / ranks
	switch m {
	case Dense:
		return 2 * n * others, 2 * n * others
	case AllGather:
		return 2 * k * (ranks - 1), 2 * k * (ranks - 1)
	case Tree:
		w := 4 * k * math.Log2(ranks)
		return w, w
	case Dynamic:
		return 4 * k * others, (2*k + n) * others
	}
	return 2 * k * others, 6 * k * others
}
