// Package task defines what a model predicts and from what: the axes and features of the input, the
// targets, statistics of the training data, the climatology, the reference that a network corrects,
// and the batches that networks read. It does not depend on the network.
//
// Fields of forecasts and targets are float32 in SI units. Inside the network they are in units of
// the error scale (Task.ErrorScale), and relative to the members' mean:
//
//	y' = (y − mean) / ErrorScale
//
// There is one target field for each lead, variable and level, stored in this order:
// [lead][variable][level].
//
//	batch := task.NewBatch(k, grid, 1)
//	err := k.FillInput(&batch, 0, forecast, members)         // input of sample 0
//	err = k.FillTarget(&batch, 0, forecast, members, analyses) // its target, for training
package task
