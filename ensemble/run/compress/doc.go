// Package compress makes smaller models of a finished training: networks with fewer channels (Prune), smaller
// networks taught by it (Distil), predictions in int8 (Quantise), and tables of skill against size:
//
//	r, err := compress.Quantise(ctx, compress.QuantiseOptions{Config: job, RunDir: "runs/int8"})
package compress
