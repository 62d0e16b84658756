// Package search predicts the time of a training step whose layers are distributed
// over ranks, and finds the best distribution.
//
//	n, err := search.Layers(g, search.Optimiser{State: 2}) // a graph with its loss; Adam has 2 values per weight
//	...
//	r, err := search.Search(n, 64, search.Machine{
//		FLOPs: 1e12, Bytes: 1e11, // per second, of one rank
//		PerNode: 4, InterNode: search.Link{Alpha: 2 * cluster.Microsecond, Rate: 12_500_000_000}, ...
//	}, search.Options{PerStage: true})
//	fmt.Println(r.Best.Mesh, r.Best.Step)
//
// Cost model, with α + βn for a message of n bytes:
//
//	computing      the largest shard's share of FLOPs and bytes, at measured kernel rates
//	               where known, else at the peak rates of the machine
//	halos          the messages of the rank that receives most, one after the other; halos
//	               in latitude and longitude overlap with the interior of a convolution and
//	               with the gradients of filters, if the engine overlaps them
//	shuffles       the same between two different distributions, and back for gradients
//	gradients      all-reduces in a queue during the backward pass, in the order in which
//	               they are ready: c = max(c, ready) + time
//	step           forward + max(backward, c) + optimiser
//
// Search space: a plan assigns a distribution to every stage, that is to all fields
// of one size. Each mesh axis splits one axis of space (evenly, or as the sizes of
// all stages allow), the channels, the samples, or nothing; then its ranks compute
// the same.
//
// Algorithm: dynamic programming over parts of a step finds the best plan of a mesh
// exactly. The runs of parts grow from the inside of the network's skips.
// Distributions that are too slow in any plan are pruned first. A test compares the
// result with an exhaustive search. Package spatial can execute every plan, given
// Plan.Mesh.
//
// If channels are split, a convolution gathers all channels of its operand, and its
// gradient all channels of the result's gradient.
//
// Times are integers in picoseconds. Sums are thus exact in every order, and all
// ranks find the same plan.
//
// Source: Dryden et al. 2019, arXiv:1903.06681, section V (cost model, search over
// distributions).
package search
