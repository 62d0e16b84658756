// Package check examines files before a job reads them: their content ([Inspect]), and all their faults at
// once, each with its fix ([Run]). Operators run it before a suite goes into service:
//
//	r, err := check.Run(ctx, check.Options{Files: []string{"fc.grib2"}})
package check
