// Package model implements a trained model: its task (package task), its networks (package
// network), the baselines and calibrations fitted with it, its files, and prediction. The jobs that
// train, apply, prune and export models are in ensemble/run:
//
//	m, err := model.Load("runs/gcm/model", true)
//	forecast, err := m.Predict(ctx, options, fc, members)
//
// A model folder contains model.json (a Description), weights and arrays as safetensors files, and
// optional files for baselines, reference, climatology and drift statistics.
package model
