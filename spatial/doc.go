// Package spatial shards the fields of one batch over the ranks of a mesh (domain
// decomposition, also called spatial parallelism). Every rank owns a box of each
// field and receives its halo, the rim that windows of its outputs read, from the
// ranks that own it.
//
// Terms:
//
//	mesh            ranks in a grid with named axes, such as "data:2 lon:4"
//	distribution    how the axes of a value are split over mesh axes (graph.Distribution)
//	shard           box of a value that a rank owns
//	halo            elements around a shard that belong to other ranks
//	redistribution  change from the shards of one distribution to any boxes per rank
//
// All communication follows from the windows of the operations (graph.Window) and
// from the distributions of the values. The package intersects intervals to find
// which rank sends which elements. Shards may therefore differ in size, and a halo
// may come from several ranks on one side.
//
// The files:
//
//   - shard.go and shard*.go rewrite a graph to the part of one rank, by kind of operation.
//   - gather, gatherHalo, sum_ranks, join_moments and crop are the operations that the rewrite
//     inserts. All but crop communicate.
//   - compile.go adds the passes of this package to those of the engine: shard, agreement of
//     the ranks on memory layouts, fusion of halos into convolutions, deferred gradient sums.
//   - part.go compiles parts of a graph apart, such as stages of a pipeline, with the same cuts.
//   - buckets.go sums gradients in buckets during the backward pass, as data-parallel training
//     does. shards.go gives each rank a part of the parameters to update (ZeRO).
//
// A run of a plan overlaps communication with computing: an exchange starts when
// its value is computed and ends before the first reader. On devices, a convolution
// computes its interior while the halo is in transit.
//
// Determinism: all ranks execute communication in the same order, and the number of
// ranks determines the order of each sum. A plan gives the same bits in every run,
// on any number of processes (comm.HostRanks). Different meshes differ by rounding.
//
// Source: Dryden et al. 2019, arXiv:1903.06681.
package spatial
