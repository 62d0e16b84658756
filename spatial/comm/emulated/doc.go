// Package emulated lets emulated devices of ranks exchange values as NCCL does between GPUs, over the messages of a
// group of ranks, for tests of plans on machines without GPUs.
package emulated
