package loader

// holder is a reader that keeps a sample in a cache.
type holder struct{ reader, cache int }

// findHolders lists who keeps each sample, by what readers keep (Schedule.Place), in the order of
// readers. A reader that keeps nothing has no places.
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

// owner is the keeper of a sample in memory that reads it from the file system for all others:
// they ask it, so that it has the sample when anybody has it. Samples are dealt out to their
// keepers. There is none if nobody keeps the sample in memory.
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

// fastestSource is the source from which a reader has a sample soonest, and its keeper if that is
// not the file system: the one of the least time, of equals its own before another reader's
// before the file system. time is that of a keeper, and whether it has the sample.
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
