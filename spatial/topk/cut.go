package topk

import (
	"math"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// sumCount counts the sums of one owner: all of them, those above the global threshold,
// and those equal to it. all is ^index if the sum of that index is not finite.
type sumCount struct{ all, above, equal int64 }

// cut keeps the sums of r.owned of at least the global threshold, which all ranks find
// afresh if that is due, or if the count is too far from k. Of sums equal to the threshold
// those of the lowest indices are kept, as long as there are no more than k. It also
// returns how many sums each owner keeps. Values are not rounded yet.
//
// The threshold is the k-th largest magnitude of all sums, or 0 if there are fewer. It is
// found by four histograms summed over ranks, which gives the same threshold as gathering
// all sums, with fewer bytes.
//
// Errors: *NotFiniteError, on all ranks; failures of the transport.
func (r *Reducer) cut(c *comm.Comm) (Entries, []int, error) {
	if r.isDense() {
		r.state.Global = 0
	}
	counts, err := r.countSums(c)
	if err != nil {
		return Entries{}, nil, err
	}
	total := totalOf(counts)
	k, n := r.state.Keep, total.above+total.equal
	if !r.isDense() && (r.finds(r.o.ThresholdSteps) || differs(n, k, searchAt) && n != min(k, total.all)) {
		if err := r.findGlobal(c); err != nil {
			return Entries{}, nil, err
		}
		if counts, err = r.countSums(c); err != nil {
			return Entries{}, nil, err
		}
		total = totalOf(counts)
	}
	ties := min(total.equal, max(0, k-total.above)) // to keep, of all owners
	kept := make([]int, c.Size())
	var own int64 // ties to keep here
	for i, n := range counts {
		take := min(n.equal, ties)
		ties -= take
		kept[i] = int(n.above + take)
		if i == c.Rank() {
			own = take
		}
	}
	t := magnitude(r.state.Global)
	var e Entries
	e.Index, e.Value = make([]int32, 0, kept[c.Rank()]), make([]float32, 0, kept[c.Rank()])
	r.owned.each(func(i int32, sum float32) {
		if b := magnitude(r.sent(sum)); b < t {
			return
		} else if b == t {
			if own == 0 {
				return
			}
			own--
		}
		e.Index, e.Value = append(e.Index, i), append(e.Value, sum)
	})
	return e, kept, nil
}

// totalOf adds the counts of all owners.
func totalOf(counts []sumCount) (t sumCount) {
	for _, n := range counts {
		t = sumCount{t.all + n.all, t.above + n.above, t.equal + n.equal}
	}
	return t
}

// countSums returns the counts of all owners.
//
// Cost: 24(P−1) bytes.
func (r *Reducer) countSums(c *comm.Comm) ([]sumCount, error) {
	t := magnitude(r.state.Global)
	var own sumCount
	r.owned.each(func(i int32, sum float32) {
		switch b := magnitude(r.sent(sum)); {
		case b >= infinite:
			if own.all >= 0 {
				own.all = ^int64(i)
			}
			return
		case b > t:
			own.above++
		case b == t:
			own.equal++
		}
		if own.all >= 0 {
			own.all++
		}
	})
	p := c.Size()
	all := make([]int64, 3*p)
	copy(all[3*comm.Auto.Piece(c.Rank(), p):], []int64{own.all, own.above, own.equal})
	if err := comm.AllGatherV(c, all, comm.SplitEvenly(len(all), p), comm.Auto); err != nil {
		return nil, err
	}
	counts := make([]sumCount, p)
	for i := range counts {
		piece := all[3*comm.Auto.Piece(i, p):]
		counts[i] = sumCount{piece[0], piece[1], piece[2]}
		if counts[i].all < 0 {
			return nil, &NotFiniteError{Rank: c.WorldRank(i), Index: int(^counts[i].all), Sum: true}
		}
	}
	return counts, nil
}

// findGlobal sets the global threshold to the k-th largest magnitude of the sums of all
// owners.
//
// Cost: four all-reduces of 2 KiB.
func (r *Reducer) findGlobal(c *comm.Comm) error {
	bits, err := kth(r.state.Keep, func(prefix, mask uint32, shift int, bins *[256]int64) error {
		r.owned.each(func(_ int32, sum float32) {
			if b := magnitude(r.sent(sum)); b&mask == prefix {
				bins[b>>shift&255]++
			}
		})
		return comm.AllReduce(c, bins[:], comm.Auto)
	})
	r.state.Global = math.Float32frombits(bits)
	r.last.SearchedGlobal = true
	return err
}
