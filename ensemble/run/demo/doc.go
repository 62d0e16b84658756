// Package demo runs the whole workflow on synthetic data that the program generates: data files, training,
// prediction, verification and report, in a few minutes. It is the first command of the README:
//
//	r, err := demo.Run(ctx, demo.Options{Root: "runs"})
package demo
