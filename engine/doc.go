// Package engine compiles the graph of a training step or of a prediction into
// a plan and runs it. It knows tensors and no weather.
//
//	store := engine.NewStore()
//	plan, err := engine.Compile(g, engine.Options{Mode: engine.Train, Device: engine.Device{Threads: 2}, Reuse: engine.Reuse{Store: store}})
//	…
//	copy(plan.Input("x"), features)
//	err = plan.Run(ctx, step)
//	loss := plan.Loss()
//	err = adam.Step(store.Params(), store.Grads(), rate)
//
// A plan is a flat list of prepared kernels over one arena with fixed offsets:
// running it allocates nothing and decides nothing, and all errors about
// shapes, sizes, budgets and devices come from Compile. Plans that share a
// Store share parameters, gradients and states: one for training, one for
// prediction with another batch size, say.
//
// The packages below: graph (values, autodiff), op (operations), pass (the
// compiler), backend (devices), optim (optimisers and schedules).
package engine
