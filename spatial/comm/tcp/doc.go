// Package tcp implements comm.Transport over TCP connections, for clusters that start processes without MPI: indexed jobs of
// Kubernetes, tasks of srun without a PMI, processes started by hand.
//
//	ENSEMBLE_COORDINATOR=node0:7700 ENSEMBLE_RANKS=4 ENSEMBLE_RANK=2 ensemble train -c train.yaml
//
// Rank 0 listens at the coordinator's address. The others connect to it, each with the address at which it listens itself,
// and receive the addresses of all. Every two processes then share one connection.
//
// Greetings and their answers are lines of JSON with the CRC-32C of the JSON at their end, as in
//
//	{"Refused":"","Damaged":"","Addresses":null} 01ab23cd
//
// A process whose greeting arrives damaged gets an answer that says so, and ends with exit code 71. A damaged answer ends it in the
// same way. The others then miss that rank.
//
// A frame is 24 bytes of header and the payload in the byte order of the machine. The header, little-endian:
//
//	0   channel  uint32
//	4   tag      uint32
//	8   size     uint64, bytes of the payload
//	16  CRC-32C of the payload
//	20  CRC-32C of the frame's number on its connection (uint64, from 0, not sent) and of bytes 0 to 19
//
// Frames of a connection keep their order, so messages of one channel and tag do. Both checksums are compared when a frame
// arrives: TCP's own has 16 bits. A frame that differs counts as the loss of its sender.
//
// A process whose connection ends without a last message (package liveness) counts as lost at once.
//
// Security: connections are neither encrypted nor authenticated, except that all processes must have the same token. Use it
// in a private network.
package tcp
