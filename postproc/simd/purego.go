//go:build !cgo || !linux

package simd

func useISA(string) bool { return false }

func normalSums(_, _, _ []float64, _, _, _ []float32, _ int, _ Link) bool { return false }
