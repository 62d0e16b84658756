// Package model is what a trained model is: its task (package task), its networks (package network), the baselines
// and calibrations that belong to it, its files, and a prediction with it. Jobs that train, use, prune or
// export models are in ensemble/run:
//
//	m, err := model.Load("runs/gcm/model", true)
//	forecast, err := m.Predict(ctx, options, fc, used)
package model
