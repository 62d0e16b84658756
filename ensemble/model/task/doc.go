// Package task says what a model has to predict and from what: axes and features of the input, targets, statistics
// of the training, climate, baselines that a network corrects, and the batches in which all that reaches a network. It
// knows no network.
//
// Fields of a forecast and of targets are float32 in SI units; inside the network they are in units of the error
// scale (Task.ErrorScale). Of a target there is one field for each lead, variable and level, in that order.
//
//	err := k.Input(&batch, 0, forecast, members) // fills the features of one sample
package task
