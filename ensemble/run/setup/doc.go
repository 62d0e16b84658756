// Package setup says what a configuration means to the model and the engine: axes, task and network of a
// training, options of the engine, bounds of memory, kept timings of kernels, and the mesh of its ranks. Every job
// begins here, so that training, prediction and explanation build the same network:
//
//	spec, task := setup.SpecOf(c), setup.TaskOf(c)
//	options := setup.EngineOptions(c.Train.Train, timings.Open(c.Train.Train.Threads))
package setup
