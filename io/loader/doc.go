// Package loader schedules, caches and prefetches training samples. It plays the
// role of a data loader with a clairvoyant cache: the complete order of accesses is
// known in advance.
//
// The order is a pure function of (seed, epoch, index). Every rank can compute the
// order of all ranks, and a resumed run continues where the interrupted one
// stopped. Caches therefore need no heuristics: of all samples in memory, that with
// the furthest next use gives way, and samples are prefetched in the order of use.
//
//	s := loader.Schedule{Seed: 7, Samples: 500, Epochs: 20, Batch: 16, Readers: 4}
//	place := s.Place(0, loader.UniformSizes(500, 1<<20), caches) // the cache of each sample on reader 0
//	r := loader.Simulate(system, s, loader.UniformSizes(500, 1<<20), loader.Clairvoyant)
//	fmt.Println(r.Total, r.Stall)
//
// Readers of the same slab read samples from the memory of each other (Loader.Serve,
// Loader.ConnectPeers). Each sample has one home, which reads it from the file system
// for all. Loader.PlanCaches takes all passes of a job, so that together readers read
// the file system as seldom as one reader with the memory of all would.
//
// Schedule.Place and Simulate are the caches and the performance model of the source:
// each reader caches what it reads most often.
//
// A reader is a group of ranks that compute the same samples. Each rank reads its
// own slab of a sample, and caches that slab.
//
// Source: Dryden, Böhringer, Ben-Nun and Hoefler 2021, Clairvoyant Prefetching for
// Distributed Machine Learning I/O, arXiv:2101.08734.
package loader
