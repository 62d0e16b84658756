//go:build !cgo || !linux

package simd

// useISA reports that there are no kernels.
func useISA(string) bool { return false }

// normalSums reports that there are no kernels.
func normalSums(_, _, _ []float64, _, _, _ []float32, _ int, _ Link) bool { return false }
