// Package cpu is the backend for processors: oneDNN for convolutions (opened
// at run time, package dnnl), kernels of our own in C for the rest (package
// kern), loops generated from scalar formulas for point-by-point operations
// without a kernel, and the reference kernels for everything else, so that
// every operation runs. Values are float32.
//
// The table in table.go names the implementations of each operation in order
// of preference. A plan runs on one goroutine locked to its thread, because
// OpenMP keeps a team of threads for each thread that enters it.
//
// Without cgo Open returns an error that says so.
package cpu
