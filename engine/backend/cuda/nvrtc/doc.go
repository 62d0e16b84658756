// Package nvrtc compiles CUDA C++ at run time with NVIDIA's library of that name, which
// is opened when it is wanted and needs neither a GPU nor a driver. What it made is kept
// in the cache of the user.
package nvrtc
