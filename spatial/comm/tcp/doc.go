// Package tcp implements comm.Transport over TCP connections, for clusters that start processes without MPI: indexed jobs of
// Kubernetes, tasks of srun without a PMI, processes started by hand.
//
//	ENSEMBLE_COORDINATOR=node0:7700 ENSEMBLE_RANKS=4 ENSEMBLE_RANK=2 ensemble train -c train.yaml
//
// Rank 0 listens at the coordinator's address. The others connect to it, each with the address at which it listens itself,
// and receive the addresses of all. Every two processes then share one connection.
//
// A frame is 16 bytes of header (channel and tag as 32 bits, size of the payload as 64 bits, little-endian) and the payload
// in the byte order of the machine. Frames of a connection keep their order, so messages of one channel and tag do.
//
// A process whose connection ends without a last message (package liveness) counts as lost at once.
//
// Security: connections are neither encrypted nor authenticated, except that all processes must have the same token. Use it
// in a private network.
package tcp
