// Package loader says which sample is needed when, by whom, and where it is best kept.
//
// Order is a pure function of (seed, epoch, index): every rank can compute everybody's, a
// resumed run goes on where the other stopped, and what will be needed next is known. So
// caches need no guesses: each rank keeps what it will read most often, fetches it in the
// order of first use, and takes each read from the fastest place that has it.
//
//	s := loader.Schedule{Seed: 7, Samples: 500, Epochs: 20, Batch: 16, Readers: 4}
//	place := s.Place(0, loader.Sizes(500, 1<<20), caches) // what reader 0 keeps, and where
//	r := loader.Simulate(system, s, loader.Sizes(500, 1<<20), loader.Clairvoyant)
//	fmt.Println(r.Total, r.Stall)
//
// Readers of one slab may take samples from each other's memory (Loader.Serve, Loader.Meet):
// who keeps what, and where it is fastest to be had, is one code for loaders and simulator.
//
// A reader is a group of ranks that compute the same samples; each of them reads its own
// slab of a sample, and that slab is what its caches hold.
//
// Source: Dryden, Böhringer, Ben-Nun and Hoefler 2021, arXiv:2101.08734.
package loader
