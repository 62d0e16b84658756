// Package comm lets ranks exchange values: messages between two of them, and
// collectives of a group.
//
// A Transport moves messages between all ranks of a job: Run starts ranks as
// goroutines of this process, package mpi joins those that an MPI launcher started.
// Host lets each of them have several parts, which are the ranks of a larger job then.
// Collectives are written once, on top of messages, so that every transport runs the
// same algorithm in the same order and gives the same bits.
//
//	comm.Run(4, comm.Free, func(c *comm.Comm) error {
//		x := []float32{float32(c.Rank())}
//		return comm.AllReduce(c, x, comm.Ring)
//	})
//
// Order: messages of one sender, receiver, group and tag arrive as they were
// sent; nothing else is promised. Run with Replay(seed) does all that this allows:
// one rank runs at a time, every message waits for its receiver, and a
// scheduler draws who goes on and what arrives. The same seed gives the same run.
//
// Source of the costs that the algorithms name: Thakur, Rabenseifner and Gropp 2005,
// doi:10.1177/1094342005051521.
package comm
