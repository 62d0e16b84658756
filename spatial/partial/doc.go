// Package partial provides data-parallel training whose ranks need not wait for the slowest
// one in every step: eager-SGD and WAGMA-SGD on partial collectives, and local SGD on
// ordinary ones.
//
// A partial collective is a sum over ranks that starts before all of them have arrived. A
// rank that is late contributes what its send buffer contains: zeros, earlier gradients, or
// an earlier model. Every rank has a compute goroutine and a progress task, which takes part
// in the operations of all steps in order, also while the rank computes.
//
//	e, err := partial.NewEager(c, len(gradient), partial.EagerOptions{Period: 10})
//	...
//	err = e.Start(steps)
//	for e.Next() < steps {
//		...
//		updates, err := e.Step(gradient)
//		for _, u := range updates { // of one step or, on a late rank, of several
//			// w = w − rate/P·u.Sum
//		}
//	}
//
// Operation of one step on one rank:
//
//	idle       no rank is known to have started it
//	activated  its own gradient is ready, or the notice of another rank has arrived
//	running    the contribution is taken from the send buffer; an ordinary all-reduce runs
//	done       the result waits for the compute goroutine
//
// Notices travel along the dissemination graph of the group, or along a binomial tree if the
// rank that starts is known. Each rank serves the operations in the order of steps, each
// once. A notice for a later step starts all earlier ones too, so no operation waits for a
// rank that computes.
//
// Every τ-th operation of a run is synchronous: it waits for the compute goroutines of all ranks.
// That bounds the age of contributions by τ−1 steps, and the number of results that wait for
// a late rank by τ.
//
// With Skip a late rank does not catch up. It continues with the first operation that has not been taken (Next), so it is less than a
// step behind, and contributes to the ones between what its send buffer has. If the first one is synchronous, and the rank missed
// the operation before it, it does not let the others wait for a gradient of that step either. Every gradient that is computed is
// still summed once. Steps left out are as in synchronous SGD with backup workers, which drops the gradients of the slowest.
//
// Results depend on which contributions were taken, and thus on time. The Log of a run lists
// them; with it as Replay a run gives the same bits again.
//
// Sources: Li et al. 2020, arXiv:1908.04207 (eager-SGD); Li et al. 2021, arXiv:2005.00124
// (WAGMA-SGD); Douillard et al. 2023, arXiv:2311.08105 (local SGD with an outer optimiser); Chen
// et al. 2016, arXiv:1604.00981 (backup workers).
package partial
