// Package simd sums the scores of a regression at many points side by side, with their first
// and second derivatives.
//
// The kernel in C takes as many neighbouring points as a vector holds; it is compiled for
// AVX-512, AVX2 and any machine, and the best is chosen when the program starts. Without
// cgo there is none: callers have loops, which judge it.
//
// Everything runs on the calling goroutine.
package simd
