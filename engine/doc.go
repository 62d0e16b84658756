// Package engine compiles the graph of a training step or a prediction into a
// plan, and runs it. It is independent of meteorology.
//
//	store := engine.NewStore()
//	plan, err := engine.Compile(g, engine.Options{Mode: engine.Train, Device: engine.Device{Threads: 2}, Reuse: engine.Reuse{Store: store}})
//	…
//	copy(plan.Input("x"), features)
//	err = plan.Run(ctx, step)
//	loss := plan.Loss()
//	err = adam.Step(store.Params(), store.Grads(), rate)
//
// A plan is a list of prepared kernels over one arena with fixed offsets. A run
// allocates nothing and makes no decisions. All errors about shapes, sizes,
// memory limits and devices come from Compile. Plans that share a Store share
// parameters, gradients and states, such as one plan for training and one for
// prediction with another batch size.
//
// The packages below: graph (values, automatic differentiation), op
// (operations), pass (the compiler), backend (devices), optim (optimisers and
// learning rate schedules).
package engine
