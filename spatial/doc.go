// Package spatial computes one sample on many ranks: values are cut along their axes
// over a grid of ranks, and what an operation reads beyond a rank's own part, its
// halo, comes from the ranks that own it.
//
// All of it follows from the windows of operations (graph.Window) and the cuts of
// values (graph.Dist): who needs what is found by intersecting intervals, so
// cuts may be uneven and a halo may come from several ranks on one side.
//
// Shard cuts a graph: shard.go, and by kind of operation the files shard*.go. What ranks
// exchange are operations of the engine: gather (a part with its halo), frame (the halo
// alone), sum_ranks, join_moments, and crop, which needs no other rank. Compile makes a plan
// of them: it has convolutions read frames (frame.go), ranks agree on layouts (agree.go),
// and gradients summed beside the backward pass (buckets.go) or left to their owners
// (shards.go).
//
// Source: Dryden et al. 2019, arXiv:1903.06681.
package spatial
