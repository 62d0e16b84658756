// Package comm provides message passing between ranks and collectives of groups of
// ranks, as MPI does.
//
// A Transport moves messages between all ranks of a job. Run starts ranks as
// goroutines of this process. Package mpi joins the processes that an MPI launcher
// started. HostRanks runs several ranks in each process. Collectives are
// implemented once, on top of messages, so that every transport runs the same
// algorithm in the same order and gives the same bits.
//
//	comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
//		x := []float32{float32(c.Rank())}
//		return comm.AllReduce(c, x, comm.Ring)
//	})
//
// Message order: messages with the same sender, receiver, group and tag arrive in
// the order in which they were sent. Other messages may overtake each other. Run
// with Replay(seed) explores the orders that this allows: one rank runs at a time,
// and a scheduler draws the next rank or message from the seed. Equal seeds give
// equal runs.
//
// Costs are in the α-β model: a message of n bytes takes α + βn.
//
// Source: Thakur, Rabenseifner and Gropp 2005, doi:10.1177/1094342005051521.
package comm
