package topk

import "math"

// magnitude is the bits of |x|. Bits of magnitudes are ordered as the magnitudes are.
func magnitude(x float32) uint32 { return math.Float32bits(x) &^ (1 << 31) }

// infinite is the magnitude of infinities; those of NaN are larger.
const infinite = 0x7f800000

// selectLocal returns the indices to send, in ascending order: about k entries of at
// least the local threshold. It finds the threshold afresh if that is due, or if the count
// is too far from k. Of entries equal to the threshold those of the lowest indices are
// taken, as long as there are no more than k. Zeros are not.
//
// The k largest entries are among those of at least nine tenths of the former threshold,
// unless gradients shrink fast. So a new threshold costs little.
//
// Cost: a pass, or six if the threshold is found among all entries.
func (r *Reducer) selectLocal() []int32 {
	a, k := r.state.Residual, r.state.Keep
	switch {
	case r.isDense():
		r.state.Local = smallest
	case r.finds(r.o.ThresholdSteps):
		r.findLocal(nil)
	}
	r.collect(candidatesFrom * r.state.Local)
	above, equal := countLocal(a, r.candidates, r.state.Local)
	if n := above + equal; !r.isDense() && differs(n, k, searchAt) && !(n < k && r.state.Local == smallest) {
		if int64(len(r.candidates)) >= k {
			r.findLocal(r.candidates)
		} else {
			r.findLocal(nil)
			r.collect(r.state.Local)
		}
		above, equal = countLocal(a, r.candidates, r.state.Local)
	}
	t, ties := magnitude(r.state.Local), min(equal, max(0, k-above))
	selected := make([]int32, 0, above+ties)
	for _, i := range r.candidates {
		if b := magnitude(a[i]); b < t {
			continue
		} else if b == t {
			if ties == 0 {
				continue
			}
			ties--
		}
		selected = append(selected, i)
	}
	return selected
}

// candidatesFrom is the share of the threshold from which entries are candidates for a
// new one. Error feedback lets many entries wait at little below the threshold, so a
// share of 0.5 makes a step take twice as long.
const candidatesFrom = 0.9

// collect sets r.candidates to the entries of at least a threshold, without zeros.
func (r *Reducer) collect(threshold float32) {
	t := magnitude(max(threshold, smallest))
	r.candidates = r.candidates[:0]
	for i, x := range r.state.Residual {
		if magnitude(x) >= t {
			r.candidates = append(r.candidates, int32(i))
		}
	}
}

// findLocal sets the local threshold to the k-th largest magnitude of entries; nil is all.
func (r *Reducer) findLocal(index []int32) {
	bits, _ := kth(r.state.Keep, func(prefix, mask uint32, shift int, bins *[256]int64) error {
		count := func(x float32) {
			if b := magnitude(x); b&mask == prefix {
				bins[b>>shift&255]++
			}
		}
		for _, i := range index {
			count(r.state.Residual[i])
		}
		if index == nil {
			for _, x := range r.state.Residual {
				count(x)
			}
		}
		return nil
	})
	r.state.Local = max(math.Float32frombits(bits), smallest)
	r.last.SearchedLocal = true
}

// smallest is the smallest positive magnitude: a threshold that all but zeros pass.
const smallest = math.SmallestNonzeroFloat32

// countLocal counts the magnitudes above and equal to a threshold, of entries of a.
func countLocal(a []float32, index []int32, threshold float32) (above, equal int64) {
	t := magnitude(threshold)
	for _, i := range index {
		if b := magnitude(a[i]); b > t {
			above++
		} else if b == t {
			equal++
		}
	}
	return above, equal
}

// kth returns the k-th largest of a set of magnitudes, digit by digit from the highest (a
// radix selection); 0 if the set has fewer. histogram adds to bins the numbers of
// magnitudes m with m&mask = prefix, by their digit m>>shift&255.
//
// Cost: four calls of histogram.
// Errors: those of histogram.
func kth(k int64, histogram func(prefix, mask uint32, shift int, bins *[256]int64) error) (uint32, error) {
	var prefix, mask uint32
	for shift := 24; shift >= 0; shift -= 8 {
		var bins [256]int64
		if err := histogram(prefix, mask, shift, &bins); err != nil {
			return 0, err
		}
		digit := 255
		for ; digit >= 0 && bins[digit] < k; digit-- {
			k -= bins[digit]
		}
		if digit < 0 { // in the first round only: later ones have as many as were counted
			return 0, nil
		}
		prefix |= uint32(digit) << shift
		mask |= 255 << shift
	}
	return prefix, nil
}
