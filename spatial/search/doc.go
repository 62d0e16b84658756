// Package search predicts how long a step of training takes when the layers of a
// network are spread over ranks, and finds how to spread them.
//
//	n, err := search.Layers(g, search.Optimiser{State: 2}) // of a graph with its loss; Adam keeps 2 numbers a weight
//	...
//	r, err := search.Search(n, 64, search.Machine{
//		FLOPs: 1e12, Bytes: 1e11, // a second, of one rank
//		PerNode: 4, Between: search.Link{Alpha: 2 * cluster.Microsecond, Rate: 12_500_000_000}, ...
//	}, search.Options{Changes: true})
//	fmt.Println(r.Best.Mesh, r.Best.Step)
//
// The model, with the time α + βn of a message of n bytes:
//
//	computing      the largest part's share of FLOPs and bytes, at measured rates of
//	               kernels where they are known, else at those of the machine
//	halos          the messages of the rank that gets most, one after the other; rows and
//	               columns for convolutions are hidden behind points that read no other
//	               rank's, and behind the gradients of filters, if the engine does so
//	shuffles       the same between two distributions, and back for gradients
//	gradients      all-reduces in one queue beside the backward pass, in the order in
//	               which they are ready: c = max(c, ready) + time
//	step           forward + max(backward, c) + optimiser
//
// A plan gives every stage, all fields of one size, a distribution over a mesh of ranks: what
// each axis of the mesh cuts there. That is space, evenly or where all sizes suit each other,
// channels, samples, or nothing, where its ranks compute the same. The best plan of a mesh
// is found exactly, by dynamic programming over parts of the step that grow from the inside
// of its skips, after spreads with which no plan can be fast enough are left out; a test
// tries all plans and judges it by them. Package spatial executes all of them: Plan.Mesh says how.
//
// Where channels are cut, a convolution gathers all channels of its operand, and its gradient
// all of the result's.
//
// Times are whole picoseconds, so sums are exact in every order and all ranks
// find the same plan.
//
// Source: Dryden et al. 2019, arXiv:1903.06681, section V (model of costs, search over
// distributions).
package search
