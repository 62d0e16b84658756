// Package spatial computes one sample on many ranks: values are cut along their axes
// over a grid of ranks, and what an operation reads beyond a rank's own part, its
// halo, comes from the ranks that own it.
//
// All of it follows from the windows of operations (graph.Window) and the cuts of
// values (graph.Dist): who needs what is found by intersecting intervals, so
// cuts may be uneven and a halo may come from several ranks on one side.
//
// Source: Dryden et al. 2019, arXiv:1903.06681.
package spatial
