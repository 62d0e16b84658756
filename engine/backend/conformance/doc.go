// Package conformance is the suite that every backend passes: all operations
// of package op on all backends of package engine, case by case from the
// definitions of the operations. Results are compared with the reference
// kernels, buffers are surrounded by guard values, every permitted in-place
// execution is tried, and the gradient of every operation is compared with
// directional differences in float64. A new operation or backend needs no edit
// here.
//
// Beside its tests the package has Compare, the part of them that a user can run on a
// processor of his own.
package conformance
