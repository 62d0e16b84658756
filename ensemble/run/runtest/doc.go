// Package runtest holds what tests of several jobs share and what needs no job: configurations, modified
// files, emulated devices, comparisons of files and fields:
//
//	c := runtest.ChannelPruning(t, demotest.Files(t))
package runtest
