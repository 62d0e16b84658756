package input

import (
	"context"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// FileReads counts what a rank read from files.
type FileReads struct {
	Inits int64 // initialisations of which it read the first field
	Bytes int64 // of values in memory
}

// A rank reads up to readBytes and receives up to receiveBytes of values in one round of readTogether. It holds two rounds of
// its own fields, and what it sends and receives in one.
const (
	readBytes    = 16 << 20
	receiveBytes = 64 << 20
)

// readTogether reads fields together with the other ranks: each field is read by one rank, which sends each rank its
// part of it. Ranks of a process with the same shard have one that receives it ([team.Team.Holder]). So files are read once by all ranks, whatever the mesh and the format. Fields are assigned in the order of
// files, in runs of equal sizes. All ranks call it with the same fields; it returns the same error on all.
//
// Errors: the first error of reading, on any rank; lost ranks.
func (s slab) readTogether(ctx context.Context, c *ValueStats, placeOf func(ensemble.Key) ([]float32, error)) (own FileReads, err error) {
	t := s.ranks
	if err := t.AgreeOnError(nil); err != nil { // a rank that could not open its files is here too
		return own, err
	}
	x := &sharedReading{slab: s, stats: c, placeOf: placeOf, union: s.windowOf(0), cuts: comm.SplitEvenly(len(c.Entries), t.Comm.Size())}
	largest := 1 // points of a window
	for rank := range t.Comm.Size() {
		x.windows = append(x.windows, s.windowOf(rank))
		x.union = unite(s.from.to, x.union, x.windows[rank])
		x.levels = append(x.levels, s.levelsOf(rank))
		x.receives = append(x.receives, t.Holder(rank) == rank)
		largest = max(largest, s.from.to.SizeOf(x.windows[rank]))
	}
	x.fields = max(1, min(readBytes/(4*max(s.from.to.SizeOf(x.union), 1)), receiveBytes/(4*largest*t.Comm.Size())))
	seen := map[ensemble.Init]bool{}
	for i, e := range c.Entries {
		if mine := i >= x.cuts[t.Comm.Rank()] && i < x.cuts[t.Comm.Rank()+1]; mine && !seen[e.Init] {
			own.Inits++
		}
		seen[e.Init] = true
	}
	rounds := 0
	for rank := range t.Comm.Size() {
		rounds = max(rounds, (x.cuts[rank+1]-x.cuts[rank]+x.fields-1)/x.fields)
	}
	// The next round is read while one is exchanged.
	next := x.start(ctx, 0)
	for round := range rounds {
		r := <-next
		if round+1 < rounds && r.err == nil {
			next = x.start(ctx, round+1)
		}
		own.Bytes += int64(4 * len(r.fields) * s.from.to.SizeOf(x.union))
		if err = t.AgreeOnError(r.err); err == nil {
			err = x.exchange(round, r.fields)
		}
		if err != nil {
			if round+1 < rounds && r.err == nil {
				<-next // its goroutine uses the reader
			}
			return own, err
		}
	}
	return own, t.AgreeOnError(x.err)
}

// sharedReading is the state of readTogether.
type sharedReading struct {
	slab
	stats    *ValueStats
	placeOf  func(ensemble.Key) ([]float32, error)
	union    ensemble.Window    // around the windows of all ranks
	windows  []ensemble.Window  // by rank, in the grid of the reader
	levels   [][]ensemble.Level // by rank
	receives []bool             // by rank: no other rank of its process receives the same
	cuts     []int              // rank r reads the entries from cuts[r] to before cuts[r+1]
	fields   int                // a rank reads in a round
	err      error              // of placing received values
}

// ownFields are the fields that a rank read in a round, in the order of entries.
type ownFields struct {
	fields [][]float32
	err    error
}

// of returns the range of entries that a rank reads in a round.
func (x *sharedReading) of(rank, round int) (lo, hi int) {
	lo = min(x.cuts[rank]+round*x.fields, x.cuts[rank+1])
	return lo, min(lo+x.fields, x.cuts[rank+1])
}

// start reads the fields of this rank in a round.
func (x *sharedReading) start(ctx context.Context, round int) <-chan ownFields {
	out := make(chan ownFields, 1)
	go func() {
		lo, hi := x.of(x.ranks.Comm.Rank(), round)
		r := ownFields{fields: make([][]float32, hi-lo)}
		for i := range r.fields {
			r.fields[i] = make([]float32, x.from.to.SizeOf(x.union))
		}
		r.err = x.from.Fill(ctx, x.stats.Entries[lo:hi], x.union, func(i int) ([]float32, error) { return r.fields[i], nil }, func(int) error { return nil })
		out <- r
	}()
	return out
}

// has reports whether a rank receives its part of an entry.
func (x *sharedReading) has(rank, entry int) bool {
	e := x.stats.Entries[entry]
	return x.receives[rank] && ensemble.FindLevel(x.levels[rank], e.Variable, e.Level) >= 0
}

// exchange sends each rank its part of the fields that this rank read in a round, and places what it receives.
func (x *sharedReading) exchange(round int, fields [][]float32) error {
	c := x.ranks.Comm
	out, in := make([][]float32, c.Size()), make([][]float32, c.Size())
	lo, _ := x.of(c.Rank(), round)
	size := x.from.to.SizeOf(x.windows[c.Rank()])
	for rank := range c.Size() {
		for i, values := range fields {
			if x.has(rank, lo+i) {
				out[rank] = append(out[rank], cropWithin(values, x.from.to, x.union, x.windows[rank])...)
			}
		}
		n := 0
		for k, hi := x.of(rank, round); k < hi; k++ {
			if x.has(c.Rank(), k) {
				n += size
			}
		}
		in[rank] = make([]float32, n)
	}
	if err := comm.AllToAll(c, out, in); err != nil {
		return err
	}
	for rank, values := range in {
		for k, hi := x.of(rank, round); k < hi && x.err == nil; k++ {
			if !x.has(c.Rank(), k) {
				continue
			}
			to, err := x.placeOf(x.stats.Entries[k].Key)
			if err == nil && len(to) != size {
				err = fmt.Errorf("%s: got memory for %d values, want %d", x.stats.Entries[k].Key, len(to), size)
			}
			if x.err = err; err == nil {
				copy(to, values)
				x.stats.Add(k, to)
			}
			values = values[size:]
		}
	}
	return nil
}

// unite returns the smallest window around two windows of a grid.
func unite(g *ensemble.Grid, a, b ensemble.Window) ensemble.Window {
	if g.IsWhole(a) || g.IsWhole(b) {
		return ensemble.Window{}
	}
	return ensemble.Window{Rows: [2]int{min(a.Rows[0], b.Rows[0]), max(a.Rows[1], b.Rows[1])}, Cols: [2]int{min(a.Cols[0], b.Cols[0]), max(a.Cols[1], b.Cols[1])}}
}

// cropWithin returns a window of a grid from the values of a window around it.
func cropWithin(values []float32, g *ensemble.Grid, around, w ensemble.Window) []float32 {
	if w == around {
		return values
	}
	if g.IsWhole(around) {
		return ensemble.CropField(values, g, w)
	}
	for i := range 2 {
		w.Rows[i] -= around.Rows[0]
		w.Cols[i] -= around.Cols[0]
	}
	return ensemble.CropField(values, g.Subgrid(around), w)
}

// rankLevels returns the levels of a rank among those of whole fields.
func rankLevels(all []ensemble.Level, ranks *team.Team) func(rank int) []ensemble.Level {
	return func(rank int) []ensemble.Level { return team.SelectLevels(all, ranks.Shard(), rank) }
}
