// Package simd computes over the members of an ensemble point by point: CRPS, mean and
// standard deviation, quantiles, of float32 fields.
//
// Members lie outermost, each a field of its own. Kernels in C take as many neighbouring
// points as a vector holds and sort them together by a sorting network, which compares
// and never branches; they are compiled for AVX-512, AVX2 and any machine, and the best is
// chosen when the program starts. Without cgo, and for fewer points than a vector holds,
// plain Go loops do the same, and judge the kernels.
//
// Everything runs on the calling goroutine.
package simd
