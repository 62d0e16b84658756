// Package traintest trains for tests of other packages: a run that tests share, trainings on ranks, and
// trainings that are interrupted and resumed:
//
//	runDir := traintest.TrainedRun(t)
package traintest
