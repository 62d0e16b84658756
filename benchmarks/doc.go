// Package benchmarks holds the Go benchmarks of the networks and of their
// convolutions; README.md says how to compare two versions with them. The script
// pytorch.py measures the same networks in PyTorch, and compare.py both in turn.
// `ensemble bench` is for users; these are for those who change kernels.
package benchmarks
