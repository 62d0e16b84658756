// Package loader schedules, caches and prefetches training samples. It plays the
// role of a data loader with a clairvoyant cache: the complete order of accesses is
// known in advance.
//
// The order is a pure function of (seed, epoch, index). Every rank can compute the
// order of all ranks, and a resumed run continues where the interrupted one
// stopped. Caches therefore need no heuristics: each rank caches the samples that
// it reads most often, prefetches in the order of first use, and serves each read
// from the fastest place that has the sample.
//
//	s := loader.Schedule{Seed: 7, Samples: 500, Epochs: 20, Batch: 16, Readers: 4}
//	place := s.Place(0, loader.UniformSizes(500, 1<<20), caches) // the cache of each sample on reader 0
//	r := loader.Simulate(system, s, loader.UniformSizes(500, 1<<20), loader.Clairvoyant)
//	fmt.Println(r.Total, r.Stall)
//
// Readers of the same slab can read samples from the memory of each other
// (Loader.Serve, Loader.ConnectPeers). Loader and simulator use the same code to
// decide which reader caches a sample, and where it is read fastest.
//
// A reader is a group of ranks that compute the same samples. Each rank reads its
// own slab of a sample, and caches that slab.
//
// Source: Dryden, Böhringer, Ben-Nun and Hoefler 2021, Clairvoyant Prefetching for
// Distributed Machine Learning I/O, arXiv:2101.08734.
package loader
