// Package search predicts the time of a training step that is divided over ranks, and finds the best mesh.
//
//	r, err := search.Search(ctx, g, 64, search.Machine{ // a graph with its loss
//		FLOPs: 1e12, Bytes: 1e11, // per second, of one rank
//		PerNode: 4, InterNode: search.Link{Alpha: 2 * cluster.Microsecond, Rate: 12_500_000_000}, ...
//	}, search.Optimiser{State: 2}, search.Options{PerStage: true}) // Adam has 2 values per weight
//	fmt.Println(r.Best.Mesh, r.Best.Step)
//
// What is priced is what runs: spatial.CompileRank compiles the step of a rank with the passes of a training. The
// operations, exchanges and sums of the result, in their order, form a script (script.go). Closed forms price it
// (price.go), and a virtual cluster plays the scripts of all ranks message by message (simulate.go).
//
// Cost model, with α + βn for a message of n bytes:
//
//	computing      FLOPs and bytes of each operation, at measured rates of convolutions
//	               where known, else at the peak rates of the machine
//	exchanges      what the rank receives or sends, whichever takes longer, one exchange
//	               after the other; the interior of a convolution is computed meanwhile,
//	               if the engine overlaps halos
//	gradients      all-reduces of buckets in a queue during the backward pass: c = max(c, ready) + time
//	step           forward + max(backward, c) + optimiser
//
// Search space: each mesh axis splits one axis of the fields of a size (evenly, or as the sizes of all fields allow),
// the channels, the samples, or nothing; then its ranks compute the same. All meshes are priced with one distribution
// for all sizes. From the best ones, changes for the fields of a size and all smaller ones are tried one after the
// other, as long as they save time. Package spatial can execute every plan, given Plan.Mesh.
//
// Ranks of unequal speed are priced from the distribution of their computation (Imbalance): synchronous steps wait for the slowest
// rank, LateStep follows exchanges that late ranks may miss, and SkipStep ranks that then leave steps out.
//
// Times are integers in picoseconds. Sums are thus exact in every order, and all processes find the same plan.
//
// Source: Dryden et al. 2019, arXiv:1903.06681, section V (cost model, search over distributions).
package search
