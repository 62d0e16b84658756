// Package tune chooses the fastest of several implementations of the same computation
// by timing them, and caches the result.
//
// Benchmark times candidates. A Table holds timings, by a text that describes the
// kernel, in a file in the user's cache directory. There is one file for each Machine:
// each processor, number of threads, and version of libraries and kernels.
// docs/formats/timings.md describes the format.
//
//	table := tune.Open("", tune.ThisMachine(threads, kernelVersion, "oneDNN 2.6.3"), log)
//	entry, known := table.Lookup(key)
//	if !known {
//		entry, err = tune.Benchmark(candidates, tune.BenchmarkOptions{})
//		…
//		table.Record(key, entry)
//	}
//	…
//	err = table.Save() // once, when all is chosen
//
// A table is a cache: without it, everything is measured again. So a damaged or
// unwritable file never stops a program. It is logged and rewritten. A nil or zero
// Table holds nothing.
package tune
