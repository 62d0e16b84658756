// Package topk sums gradients over ranks, sending only their largest entries.
//
//	r, err := topk.New(n, topk.Options{Density: 0.01})
//	...
//	sums, err := r.Sum(group, comm.Parts[float32]{gradient}) // each step, by all ranks
//
// Each rank keeps a residual e. In a step it forms the sum a = e + x with its new
// gradient x, and
//
//  1. selects the entries of a of at least the local threshold, about k of n,
//  2. sends them to the owners of their indices (regions of the index space, in which
//     equally many entries are selected),
//  3. adds what it received for its own region, in the order of ranks 0 to P−1,
//  4. keeps the sums of at least the global threshold, about k on all ranks, and
//  5. gathers those of all ranks: the result u, with equal bits on all ranks.
//
// An entry of a that is part of u leaves the residual; everything else stays in it and
// is sent in a later step. So no part of a gradient is lost: the sum over ranks of the
// new residuals and u is the sum over ranks of a.
//
// The thresholds are those of the k largest magnitudes, found every 32 steps. Between
// these steps they are reused, and adapted by about 1 %, as long as counts differ from k
// by at most a tenth; otherwise they are found again at once, the local one among entries
// of at least nine tenths of the former threshold. Regions are found every 64 steps.
//
// A rank sends at most about 6k(P−1)/P words of 4 bytes instead of 2n(P−1)/P; Volume has
// the formulas. Zeros are never sent, so entries that a mask sets to zero cost nothing.
//
// With Options.Updates the ranks sum updates of AdamW that each computes from its own
// gradients, so that the moments are dense (updates.go).
//
// Source: Li and Hoefler 2022, arXiv:2201.07598 (Ok-Topk); Lin et al. 2018, "Deep gradient
// compression", arXiv:1712.01887 (momentum.go).
package topk
