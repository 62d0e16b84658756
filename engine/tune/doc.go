// Package tune finds out which of several ways to compute the same is fastest
// here, and remembers it.
//
// Race times candidates in turn. A Table keeps what was measured, for each
// kernel by a text that describes it, in a file in the user's cache directory:
// one file for each Machine, that is for each processor, number of threads, and
// version of libraries and kernels. The format is in docs/formats/timings.md.
//
//	table := tune.Open("", tune.Here(threads, kernelVersion, "oneDNN 2.6.3"), log)
//	entry, known := table.Lookup(key)
//	if !known {
//		entry, err = tune.Race(candidates, tune.RaceOptions{})
//		…
//		table.Record(key, entry)
//	}
//	…
//	err = table.Save() // once, when all is chosen
//
// A table is a hint: without it, everything is measured again. So nothing that
// is wrong with the file stops a program; it is logged, and the file is written
// anew. A nil or zero Table remembers nothing.
package tune
