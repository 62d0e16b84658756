// Package model is what a trained model is: its task (what goes in, what is asked, and the
// numbers between the two), the graph of its network, the distribution that its head gives,
// its files, and a prediction with it. Jobs that train, use, prune or export models are
// in ensemble/run.
//
// Fields of a forecast and of targets are float32 in SI units; inside the network they are
// in units of the error scale (Task.ErrorScale). Of a target there is one field for each
// lead, variable and level, in that order.
package model
