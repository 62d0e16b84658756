package loader

// holder is a reader that caches a sample, and the cache.
type holder struct{ reader, cache int }

// findHolders lists the holders of each sample from the placements of all readers
// (Schedule.Place), by reader. A reader without caches has a nil placement.
func findHolders(places [][]int, samples int) [][]holder {
	of := make([][]holder, samples)
	for reader, place := range places {
		for k, cache := range place {
			if cache != uncached {
				of[k] = append(of[k], holder{reader, cache})
			}
		}
	}
	return of
}

// owner returns the holder of a sample in memory that reads it from the file system
// for all other readers. They request it from the owner, which has the sample as soon as any
// reader does. Samples are distributed over their holders. ok is false if no reader
// holds the sample in memory.
func owner(k int, of []holder) (p holder, ok bool) {
	n := 0
	for _, p := range of {
		if p.cache == inMemory {
			n++
		}
	}
	at := 0
	for _, p := range of {
		if p.cache == inMemory {
			if at == k%n {
				return p, true
			}
			at++
		}
	}
	return p, false
}

// fastestSource returns the source with the least time, and the holder unless it is
// the file system. Of equal times, the reader's own cache has precedence over other
// readers, and these over the file system. time returns the time of a holder, and
// whether it has the sample.
func fastestSource(reader int, fileSystem float64, of []holder, time func(p holder) (t float64, has bool)) (best Source, from holder) {
	best, least := FileSystem, fileSystem
	for _, p := range of {
		source := Remote
		if p.reader == reader {
			source = Local
		}
		if t, has := time(p); has && (t < least || t == least && source < best) {
			best, least, from = source, t, p
		}
	}
	return best, from
}
