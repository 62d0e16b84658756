// Package loader says which sample is needed when. Order is a pure function of
// (seed, epoch, index): every rank can compute everybody's, a resumed run goes on
// where the other stopped, and what will be needed next is known.
package loader

import "math/rand/v2"

// The purposes keep random streams apart that share seed, epoch and index.
const (
	purposeOrder   = 0x6f72646572
	purposeMembers = 0x6d656d6265
)

// stream is the random stream of one purpose, epoch and index.
func stream(seed uint64, purpose, epoch, index uint64) *rand.Rand {
	// SplitMix64's finaliser spreads the small numbers over all bits.
	mix := func(x uint64) uint64 {
		x += 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	return rand.New(rand.NewPCG(mix(mix(seed)+purpose), mix(mix(epoch)+index)))
}

// Order is the permutation of n samples that an epoch visits.
func Order(seed, epoch uint64, n int) []int {
	return stream(seed, purposeOrder, epoch, 0).Perm(n)
}

// Members draws k of the member positions 0 … n-1 for one sample of one epoch, in
// ascending order. Position 0, the control, is kept in every draw if keepFirst.
func Members(seed, epoch, index uint64, n, k int, keepFirst bool) []int {
	r := stream(seed, purposeMembers, epoch, index)
	first := 0
	if keepFirst && k > 0 {
		first = 1
	}
	// Selection sampling: each position is taken with the probability that the
	// draws left to make have among the positions left to see.
	out := make([]int, 0, k)
	for m := range n {
		switch {
		case m < first:
			out = append(out, m)
		case r.IntN(n-m) < k-len(out):
			out = append(out, m)
		}
	}
	return out
}
