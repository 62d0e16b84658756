// Package demo does every job once, on weather that the program makes: files, training, prediction and report,
// in a few minutes and without data. It is the first command of the README:
//
//	r, err := demo.Run(ctx, demo.Options{Root: "runs"})
package demo
