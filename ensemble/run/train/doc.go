// Package train trains the networks of a model as a configuration describes, calibrates and scores them, and
// writes a run directory. A training can be interrupted after any step; resumed, it ends with the same bits:
//
//	r, err := train.Run(ctx, train.Options{Config: c, RunDir: "runs/gcm", Resume: "auto"})
//
// A training is a sequence of stages, each in the file of its name: open (run directory), read (samples),
// prepare (statistics and baselines, see fit.go), loop (the networks, one after the other), calibrate,
// evaluate (test samples), record (manifest).
//
// The stages share a trainer. It consists of a job, which is constant during a run; auxiliary inputs, such as
// a teacher; the network in training; the position, which a checkpoint stores with the network; and
// observers, which report progress and influence nothing.
package train
