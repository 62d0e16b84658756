// Package train trains the networks of a model from a configuration, calibrates and scores them, and leaves a
// run directory. It can be interrupted at any step and resumes to the same bits:
//
//	r, err := train.Run(ctx, train.Options{Config: c, RunDir: "runs/gcm", Resume: "auto"})
package train
