//go:build !cgo || !linux

package simd

// ISA is empty without cgo: there are no kernels.
func ISA() string { return "" }

func useISA(string) bool { return false }

func crpsVectors(_ []float32, _ [][]float32, _ []float32, _ float32) bool { return false }

func meanStdVectors(_, _ []float32, _ [][]float32, _ float32) bool { return false }

func quantilesVectors(_, _ [][]float32, _ []int, _ []float32) bool { return false }

func normalSumsVectors(_, _, _ []float64, _, _, _ []float32, _ int, _ Link) bool { return false }
