// Package check looks at files before a job does: what they hold (Inspect), and all their faults at once,
// each with its fix (Run). Operators call it before a suite goes into service:
//
//	r, err := check.Run(ctx, check.Options{Files: []string{"fc.grib2"}})
package check
