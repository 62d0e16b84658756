// Package emulated exchanges values between emulated devices, as NCCL does between
// GPUs. It uses the messages of a group of ranks. Tests run plans for several GPUs
// with it on machines without GPUs.
package emulated
