// Package setup translates a configuration for model and engine: axes, task and network of a training, engine
// options, memory limits, kernel timings, and the mesh of its ranks. Every job starts with it, so that
// training, prediction and explanation build the same network:
//
//	spec, task := setup.SpecOf(c), setup.TaskOf(c)
//	options := setup.EngineOptions(c.Train.Train, timings.Open(c.Train.Train.Threads))
package setup
