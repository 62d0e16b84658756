// Package op has the operations of the engine, one file for each idea:
// everything about an operation stands together (shape rule, gradient in terms
// of other operations, window, cost, reference kernel, small cases for the
// conformance suite) and table.go lists them all.
//
// Operations are functions of the builder and values:
//
//	y := op.ReLU(b, op.Bias(b, op.Conv3D(b, x, w, op.Conv{Pad: op.Same(3, 3, 3)}), bias))
//	b.Loss(op.Mean(b, op.GaussianCRPS(b, mu, sigma, target)))
//
// Errors are kept by the builder (package graph). Elementwise operations
// broadcast axes of size 1 and scalars; their gradients sum over those axes.
//
// To add an operation: one file with a Define call and one line in table.go.
// It then works on every backend, because dispatch ends at the reference
// kernel; a backend's table may add a fast one.
package op
