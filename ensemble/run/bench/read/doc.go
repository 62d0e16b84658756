// Package read measures how fast files of fields are opened and read here, and how long a whole prediction from them
// takes. It is for users who ask what their disks and formats cost, and for benchmarks/peers.py, which measures other
// readers beside it.
//
//	r, err := read.Run(ctx, read.Options{Files: []string{"forecast.grib2"}, Rounds: 7})
package read
