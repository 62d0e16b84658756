// Package quality times a training to a quality: a log of it by the rules of MLPerf HPC, which train writes and experiments read.
//
//	t, err := quality.Read("runs/a/mllog.txt")
//	fmt.Println(t.Reached, t.Seconds, t.Epochs)
package quality
