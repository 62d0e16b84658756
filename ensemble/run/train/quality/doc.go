// Package quality measures the time of a training to a target loss, and logs it by the rules of MLPerf HPC.
// train writes the log, experiments read it:
//
//	t, err := quality.Read("runs/a/mllog.txt")
//	fmt.Println(t.Reached, t.Seconds, t.Epochs)
package quality
