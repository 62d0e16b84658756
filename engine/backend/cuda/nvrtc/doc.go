// Package nvrtc compiles CUDA C++ at run time with NVRTC. The library is opened when it
// is needed; it requires neither a GPU nor a driver. Results are stored in the user's
// cache.
//
// Source: NVIDIA, NVRTC documentation.
package nvrtc
