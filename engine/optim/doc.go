// Package optim moves the parameters of an engine.Store along their gradients:
// SGD with momentum, Adam, AdamW, LARS and LAMB over the store's flat memory,
// clipping by the global norm, gradients gathered over several batches, a running
// average of the weights, and schedules of the learning rate.
//
//	opt, err := optim.New(store, optim.Options{Kind: optim.AdamW, Decay: 0.01, NoDecay: optim.Biases, Clip: 1})
//	rate := optim.Warmup{Schedule: optim.Cosine{Max: 1e-3, Hold: 100, Total: 5000}, Steps: 100}
//	…
//	norm, err := opt.Step(rate.Rate(step))
//
// A step is one sweep over the parameters (LARS and LAMB read them once more for
// their norms) and allocates nothing. Its bits do not depend on the number of
// threads, nor on the ranks that share an optimiser. Its state (moments and number of
// steps) leaves and returns bit for bit through State and Restore, for checkpoints.
package optim
