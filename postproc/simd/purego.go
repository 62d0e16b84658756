//go:build !cgo || !linux

package simd

// useISA returns false: the kernel needs cgo.
func useISA(string) bool { return false }

// normalSums returns false: the kernel needs cgo.
func normalSums(_, _, _ []float64, _, _, _ []float32, _ int, _ Link) bool { return false }
