// Package rng is the counter-based random stream of the engine: value i of the
// stream with key k is a pure function of (k, i), so runs repeat, any rank can
// draw any part, and nothing has to be saved in a checkpoint but the step.
//
// The generator is SplitMix64 (Steele, Lea, Flood 2014,
// doi:10.1145/2660193.2660195): its i-th output is the finaliser applied to
// key + i·golden, which is what makes it a counter-based generator.
package rng

import "math"

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ divided by the golden ratio, odd

// mix is the finaliser of SplitMix64 (variant 13 of Stafford).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Key combines parts (seed, purpose, rank, step, …) into the key of a stream.
// The order of the parts matters.
func Key(parts ...uint64) uint64 {
	k := uint64(golden)
	for _, p := range parts {
		k = mix(k^mix(p+golden)) + golden
	}
	return k
}

// Hash turns a name into a part of a key (FNV-1a, 64 bit).
func Hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// Bits is value i of the stream: 64 random bits.
func Bits(key, i uint64) uint64 { return mix(key + (i+1)*golden) }

// Uniform is value i of the stream, uniform in [0, 1) with 53 bits.
func Uniform(key, i uint64) float64 { return float64(Bits(key, i)>>11) * 0x1p-53 }

// Normal is value i of the standard normal stream, by Box and Muller (1958)
// from the two uniform values 2i and 2i+1; the first is moved into (0, 1].
func Normal(key, i uint64) float64 {
	u := float64(Bits(key, 2*i)>>11)*0x1p-53 + 0x1p-53
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*Uniform(key, 2*i+1))
}
