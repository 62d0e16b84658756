// Package op defines the operations of the engine. A file holds everything
// about one operation: shape rule, gradient in terms of other operations,
// window, cost, reference kernel, and small cases for the conformance suite.
// Table lists all operations.
//
// Operations are functions of a builder and values:
//
//	y := op.ReLU(b, op.Bias(b, op.Conv3D(b, x, w, op.Conv{Pad: op.Same(3, 3, 3)}), bias))
//	b.Loss(op.Mean(b, op.GaussianCRPS(b, mu, sigma, target)))
//
// The builder keeps errors (package graph). Elementwise operations broadcast
// axes of size 1 and scalars. Their gradients are summed over these axes.
//
// To add an operation, write one file with a Define call and one line in
// table.go. The operation then works on every backend, because the reference
// kernel is the last choice of the dispatch. The table of a backend may add a
// fast kernel.
package op
