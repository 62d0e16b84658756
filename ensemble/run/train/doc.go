// Package train trains the networks of a model from a configuration, calibrates and scores them, and leaves a
// run directory. It can be interrupted at any step and resumes to the same bits:
//
//	r, err := train.Run(ctx, train.Options{Config: c, RunDir: "runs/gcm", Resume: "auto"})
//
// A training goes through stages, each in a file of its name: open (the run directory), read (the samples),
// prepare (what is fitted before the first network: fit.go), loop (the networks, one after the other),
// calibrate, judge, record.
//
// What they share is the trainer: a job, which stays the same in a run; the inputs beside the samples; the
// present network; the position in the training, which with the network is what a checkpoint keeps; and
// observers, which report and change nothing.
package train
