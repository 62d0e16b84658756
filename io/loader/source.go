package loader

// keeper is a reader that keeps a sample in a cache.
type keeper struct{ reader, cache int }

// keepers lists who keeps each sample, by what readers keep (Schedule.Place), in the order of
// readers. A reader that keeps nothing has no places.
func keepers(places [][]int, samples int) [][]keeper {
	of := make([][]keeper, samples)
	for reader, place := range places {
		for k, cache := range place {
			if cache != nowhere {
				of[k] = append(of[k], keeper{reader, cache})
			}
		}
	}
	return of
}

// home is the keeper of a sample in memory that reads it from the file system for all others:
// they ask it, so that it has the sample when anybody has it. Samples are dealt out to their
// keepers. There is none if nobody keeps the sample in memory.
func home(k int, of []keeper) (p keeper, ok bool) {
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

// fastest is the source from which a reader has a sample soonest, and its keeper if that is
// not the file system: the one of the least time, of equals its own before another reader's
// before the file system. time is that of a keeper, and whether it has the sample.
func fastest(reader int, fileSystem float64, of []keeper, time func(p keeper) (t float64, has bool)) (best Source, from keeper) {
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
