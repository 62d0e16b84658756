// Package device measures what the engine reaches on one device, a GPU above all: whether its operations conform to
// the reference, how far networks are from float64, rates of matrix products and copies, training steps, predictions,
// steps in less memory, a short training, and which targets are met beside a peer's figures. It is for those who
// change the engine or bring it to a new device; benchmarks/gpu.sh runs all parts, each in a process of its own.
//
//	r, err := device.Measure(ctx, "train", device.Options{Backend: "cuda"})
package device
