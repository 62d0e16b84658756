// Package runtest holds what tests of several jobs share and needs no job: configurations, changed files,
// emulated devices, comparisons of files and fields:
//
//	c := runtest.LosingChannels(t, demotest.Files(t))
package runtest
