// Package device measures the engine on one device, in particular a GPU: conformance of its operations with
// the reference, errors of networks relative to float64, rates of matrix products and copies, training steps,
// predictions, steps in less memory, a short training, and targets relative to another program's results. It
// is for development of the engine and new devices; benchmarks/gpu.sh runs all parts, each in a separate
// process.
//
//	r, err := device.Measure(ctx, "train", device.Options{Backend: "cuda"})
package device
