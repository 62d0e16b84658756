// Package notebooks is the program for notebooks of a Go kernel: five lines from files
// to a map.
//
//	import ens "github.com/ensemble-weather/ensemble/notebooks"
//
//	ds := ens.MustOpen("fc/*.grib2", ens.Analyses("an/*.nc"), ens.Cached())
//	ds.Show()
//	run := ens.MustTrain("quick", ds, ens.Target("t2m"), ens.Small())
//	p := run.MustPredict(ds.Init("2017-02-26T00Z"), ens.Lead("48h"))
//	p.Spread("t2m").Map(ens.Europe).Show()
//
// The kernel GoNB compiles and runs a new program for each cell, so that a variable of
// the package is made again in every later cell. Datasets, runs and predictions are
// therefore names of what is on disk, found by its content: made again from the same
// files and options they are the same at once. Everything lies in one folder, "runs" if
// In names no other, and the program's own commands work on it too.
//
// A function without Must returns its error. One with Must prints it as the program
// does, with what, where, why and the next step, and ends the cell with the program's
// exit code. What is asked of a thing that could not be made, as in the last line
// above, gives another such thing; Show then ends the cell in the same way, and Err
// tells the error.
//
// Show adds a picture or a table to the cell, ens.Show all that a job found, as its command prints it. Outside of a notebook it writes the
// picture into the folder "shown" and prints its path, and tables as text. Pictures are
// PNG and SVG, so that they stay in the saved notebook. Nothing prints more than
// MaxLines lines.
//
// Stopping a cell ends a training after its step, with its state saved; the same cell
// goes on with it. The kernel waits five seconds for that.
package notebooks
