// Package optim moves the parameters of an engine.Store along their gradients:
// SGD with momentum, Adam and AdamW over the store's flat memory, clipping by
// the global norm, and schedules of the learning rate.
//
//	opt, err := optim.New(store, optim.Options{Kind: optim.AdamW, Decay: 0.01, NoDecay: optim.Biases, Clip: 1})
//	rate := optim.Cosine{Max: 1e-3, Warmup: 100, Total: 5000}
//	…
//	norm, err := opt.Step(rate.Rate(step))
//
// The state of an optimiser (moments and number of steps) leaves and returns
// bit for bit through State and SetSteps, for checkpoints.
package optim
