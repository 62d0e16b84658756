// Package runtest holds what tests of several jobs share and needs no job: configurations, changed files,
// emulated devices, comparisons of files and fields:
//
//	c := demotest.Config(t, files, runtest.LosingChannels(t, files)...)
package runtest
