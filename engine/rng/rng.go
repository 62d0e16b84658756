// Package rng generates the random numbers of the engine with a counter-based
// generator. Value i of the stream with key k is a pure function of (k, i). So
// runs repeat, every rank can draw any part of a stream, and a checkpoint
// stores only the step.
//
// The generator is SplitMix64. Its output i is a finaliser applied to key +
// (i+1)·γ, where γ is 2⁶⁴ divided by the golden ratio.
//
// Source: Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195.
package rng

import "math"

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ divided by the golden ratio, odd

// mix is the finaliser of SplitMix64 (Stafford's variant 13). It is a bijection
// of 64-bit integers.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Key combines parts such as seed, purpose, rank and step into the key of a
// stream. The order of the parts matters.
func Key(parts ...uint64) uint64 {
	k := uint64(golden)
	for _, p := range parts {
		k = mix(k^mix(p+golden)) + golden
	}
	return k
}

// Hash maps a name to a part of a key (FNV-1a, 64 bits).
func Hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// Bits is value i of the stream: 64 random bits.
func Bits(key, i uint64) uint64 { return mix(key + (i+1)*golden) }

// Uniform is value i of the stream, uniform in [0, 1) with 53 random bits.
func Uniform(key, i uint64) float64 { return float64(Bits(key, i)>>11) * 0x1p-53 }

// Normal is value i of the standard normal stream, by the transform of Box and
// Muller (1958):
//
//	√(−2 ln u) · cos(2πv)
//
// u and v are the uniform values 2i and 2i+1. u is shifted into (0, 1], so that
// the logarithm is finite. Streams of Normal and Uniform with one key overlap:
// use separate keys.
func Normal(key, i uint64) float64 {
	u := float64(Bits(key, 2*i)>>11)*0x1p-53 + 0x1p-53
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*Uniform(key, 2*i+1))
}
