package loader

import (
	"math/bits"
	"math/rand/v2"
)

// generator is SplitMix64. It makes the same order on every rank and in every
// version of Go.
//
// Source: Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195.
type generator struct{ state uint64 }

// next returns the next 64 random bits.
func (g *generator) next() uint64 {
	g.state += 0x9e3779b97f4a7c15
	return mix(g.state)
}

// mix is the finaliser of SplitMix64. It spreads small differences over all bits.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// intn returns a number in [0, n), the high word of the 128-bit product n·next().
func (g *generator) intn(n int) int {
	high, _ := bits.Mul64(g.next(), uint64(n))
	return int(high)
}

// Order returns the permutation of n samples in an epoch, counted from 0
// (Fisher–Yates shuffle).
func Order(seed, epoch uint64, n int) []int {
	// The odd multiplier spreads consecutive epochs over the state space.
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

// purposeMembers separates the random numbers of DrawMembers from others with the
// same seed.
const purposeMembers = 0x6d656d6265

// DrawMembers draws k of n member positions without replacement, for one sample of
// one epoch, in ascending order. keepFirst includes position 0, the control, in
// every draw.
func DrawMembers(seed, epoch, index uint64, n, k int, keepFirst bool) []int {
	r := rand.New(rand.NewPCG(firstDraw(firstDraw(seed)+purposeMembers), firstDraw(firstDraw(epoch)+index)))
	kept := 0
	if keepFirst && k > 0 {
		kept = 1
	}
	// Selection sampling (Knuth, TAOCP 2, Algorithm 3.4.2S): a position is taken
	// with probability (draws left)/(positions left).
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

// purposeVerifying separates the random numbers of the verifying member from those of input members.
const purposeVerifying = 0x766572696679

// DrawVerifying draws the position of the member that verifies one sample of one epoch, and as DrawMembers the positions of k input
// members from the other n − 1. keepFirst includes position 0, the control, in every draw of input members; it never verifies.
func DrawVerifying(seed, epoch, index uint64, n, k int, keepFirst bool) (verifying int, used []int) {
	first := 0
	if keepFirst {
		first = 1
	}
	verifying = first + DrawMembers(seed^purposeVerifying, epoch, index, n-first, 1, false)[0]
	used = DrawMembers(seed, epoch, index, n-1, k, keepFirst)
	for i, at := range used { // positions without that of the verifying member
		if at >= verifying {
			used[i]++
		}
	}
	return verifying, used
}

// firstDraw returns the first number of a generator with state x.
func firstDraw(x uint64) uint64 { return (&generator{x}).next() }
