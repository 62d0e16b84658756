// Package read measures how fast files are opened and read, and how long a whole prediction from them takes.
// Users compare disks and formats with it; benchmarks/peers.py compares other readers:
//
//	r, err := read.Run(ctx, read.Options{Files: []string{"forecast.grib2"}, Rounds: 7})
package read
