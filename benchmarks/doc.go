// Package benchmarks holds the Go benchmarks of the networks and of their convolutions. README.md describes how to
// compare two versions with them. The scripts pytorch.py and runtimes.py measure the same networks in PyTorch,
// OpenVINO and ONNX Runtime; compare.py runs all alternately. Users run `ensemble bench`; developers of kernels use these benchmarks.
package benchmarks
