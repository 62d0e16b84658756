// Package conformance is the test suite of all backends: all operations of package op
// on all backends of package engine, with the cases of the operations' definitions.
//
//   - Results are compared with those of the reference kernels.
//   - Buffers are surrounded by guard values, to find writes outside of them.
//   - Every permitted in-place execution is tried.
//   - The gradient of every operation is compared with central differences of a
//     directional derivative, in float64.
//
// A new operation or backend needs no change of this package.
//
// Compare is the part of the suite that users can run on their own processor.
package conformance
