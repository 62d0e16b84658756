// Package compress makes smaller or faster models from finished trainings: networks with fewer channels or
// weights (Prune), smaller networks by knowledge distillation (Distil), int8 predictions (Quantise), and tables of
// skill against cost:
//
//	r, err := compress.Quantise(ctx, compress.QuantiseOptions{Config: job, RunDir: "runs/int8"})
package compress
