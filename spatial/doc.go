// Package spatial shards the fields of one batch over the ranks of a mesh (domain
// decomposition, also called spatial parallelism). Every rank owns a box of each
// field and receives its halo, the rim that windows of its outputs read, from the
// ranks that own it.
//
// All communication follows from the windows of the operations (graph.Window) and
// from the distributions of the values (graph.Dist). The package intersects
// intervals to find which rank sends which elements. Shards may therefore differ in
// size, and a halo may come from several ranks on one side.
//
// The files:
//
//   - shard.go and shard*.go rewrite a graph to the part of one rank, by kind of operation.
//   - gather, gatherHalo, sum_ranks, join_moments and crop are the operations that the rewrite
//     inserts. All but crop communicate.
//   - compile.go adds the passes of this package to those of the engine: shard, agreement of
//     the ranks on memory layouts, fusion of halos into convolutions, deferred gradient sums.
//   - buckets.go sums gradients in buckets during the backward pass, as data-parallel training
//     does. shards.go gives each rank a part of the parameters to update (ZeRO).
//
// Source: Dryden et al. 2019, arXiv:1903.06681.
package spatial
