// Package simd computes the mean CRPS of a regression at many points in parallel, with its
// first and second derivatives, by SIMD instructions.
//
// The kernel is C code that processes as many neighbouring points as a vector register
// holds. It is compiled for AVX-512, AVX2 and baseline instructions; the best supported
// variant is selected at program start. Without cgo there is no kernel: callers have Go
// loops, which are also the reference of its tests.
//
// All work runs on the calling goroutine.
package simd
