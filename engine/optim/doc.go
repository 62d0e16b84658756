// Package optim updates the parameters of an engine.Store with their gradients. It implements SGD
// with momentum, Adam, AdamW, LARS and LAMB on the flat memory of the store, clipping by the global
// norm, gradient accumulation over several batches, an exponential moving average of the weights,
// loss scaling for float16, and learning rate schedules.
//
//	opt, err := optim.New(store, optim.Options{Kind: optim.AdamW, Decay: 0.01, Clip: 1})
//	rate := optim.Warmup{Schedule: optim.Cosine{Max: 1e-3, Hold: 100, Total: 5000}, Steps: 100}
//	…
//	norm, err := opt.Step(rate.Rate(step))
//
// A step reads and writes each parameter once. LARS and LAMB read the parameters a second time for
// the norms. A step allocates no memory.
//
// The result does not depend on the number of threads, nor on the number of ranks that share an
// optimiser: it is the same bit for bit. State and Restore save and restore the moments and the
// number of steps exactly, for checkpoints.
package optim
