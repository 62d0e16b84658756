package loader

import (
	"math/bits"
	"math/rand/v2"
)

// generator is SplitMix64, by which every rank and every version draw the same order.
//
// Source: Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195.
type generator struct{ state uint64 }

func (g *generator) next() uint64 {
	g.state += 0x9e3779b97f4a7c15
	return mix(g.state)
}

// mix is SplitMix64's finaliser, which spreads small numbers over all bits.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// intn is a number from 0 to n−1.
func (g *generator) intn(n int) int {
	high, _ := bits.Mul64(g.next(), uint64(n))
	return int(high)
}

// Order is the permutation of n samples that an epoch, counted from 0, visits.
func Order(seed, epoch uint64, n int) []int {
	g := generator{seed ^ (epoch+1)*0xd1b54a32d192ed03}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := g.intn(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// purposeMembers keeps the draws of members apart from others of the same seed.
const purposeMembers = 0x6d656d6265

// DrawMembers draws k of the member positions 0 … n-1 for one sample of one epoch, in
// ascending order. Position 0, the control, is kept in every draw if keepFirst.
func DrawMembers(seed, epoch, index uint64, n, k int, keepFirst bool) []int {
	r := rand.New(rand.NewPCG(firstDraw(firstDraw(seed)+purposeMembers), firstDraw(firstDraw(epoch)+index)))
	kept := 0
	if keepFirst && k > 0 {
		kept = 1
	}
	// Selection sampling: each position is taken with the probability that the
	// draws left to make have among the positions left to see.
	out := make([]int, 0, k)
	for m := range n {
		switch {
		case m < kept:
			out = append(out, m)
		case r.IntN(n-m) < k-len(out):
			out = append(out, m)
		}
	}
	return out
}

// firstDraw is the first number that a generator started at x draws.
func firstDraw(x uint64) uint64 { return (&generator{x}).next() }
