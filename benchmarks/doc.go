// Package benchmarks holds the Go benchmarks of the networks and of their convolutions. README.md describes how to
// compare two versions with them. The script pytorch.py measures the same networks in PyTorch; compare.py runs
// both alternately. Users run `ensemble bench`; developers of kernels use these benchmarks.
package benchmarks
