// Package notebooks is the interface for Jupyter notebooks with a Go kernel. It trains networks
// and draws their forecasts in a few lines:
//
//	import ens "github.com/ensemble-weather/ensemble/notebooks"
//
//	ds := ens.MustOpen("fc/*.grib2", ens.Analyses("an/*.nc"), ens.Cached())
//	ds.Show()
//	run := ens.MustTrain("quick", ds, ens.Target("t2m"), ens.Small())
//	p := run.MustPredict(ds.Init("2017-02-26T00Z"), ens.Lead("48h"))
//	p.Spread("t2m").Map(ens.Europe).Show()
//
// The kernel GoNB compiles and runs a new program for each cell. It executes the variables of
// earlier cells again. Datasets, runs and predictions are therefore references to files on disk.
// Their names contain checksums of their inputs. A cell with unchanged files and options reuses
// the existing results. All results are in one folder, the default is "runs". The commands of the
// program work on this folder too.
//
// A function without Must returns its error. A function with Must prints the error in the format
// of the program and ends the cell with the exit code of the program. A value that could not be
// computed carries its error: its methods return values with the same error, Show ends the cell
// with it, and Err returns it.
//
// The method Show adds a picture or a table to the cell. The function Show adds all results of a
// job, as the command prints them. Outside of a notebook, pictures are files in the folder
// "shown", whose paths are printed, and tables are printed as text. Pictures are PNG or SVG, and
// the saved notebook contains them. A call prints at most MaxLines lines.
//
// Interrupting a cell stops a training after the current step and saves its state. Running the
// cell again continues the training. The kernel waits five seconds for the state to be saved.
package notebooks
