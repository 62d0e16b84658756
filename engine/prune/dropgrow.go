package prune

import (
	"math"
	"slices"
)

// dropAndGrow removes a fraction of the remaining units of every layer, and adds as many units
// that are masked (drop and grow). It removes the units with the smallest mean |w|. It adds the
// masked units with the largest mean of grow; at equal scores the first ones. A unit that was just
// removed may be added again, and keeps its weights then.
//
// The number of weights of a layer stays constant: at the edges of a layer blocks are smaller, and
// a unit is replaced by one of the same size.
//
// Shape: w, grow [parameters].
// Source: Mocanu et al. 2018, doi:10.1038/s41467-018-04316-3 (grow at random); Evci et
// al. 2020, arXiv:1911.11134, algorithm 1 (grow by gradients), here with units of
// several weights.
func (p *Pruner) dropAndGrow(fraction float64, w, grow []float32) {
	keep := slices.Clone(p.mask)
	scores := make([]float32, p.n)
	for at, l := range p.layers {
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			scores[i] = float32(math.Abs(float64(w[i])))
			if !keep[i] {
				scores[i] = -1
			}
		}
		weak, strong := newRanking(p.o.Structure, p.layers[at:at+1], scores), newRanking(p.o.Structure, p.layers[at:at+1], grow)
		set := func(k key, to bool) {
			for _, i := range weak.unitElements(k.unit()) {
				keep[i] = to
			}
		}
		remaining := map[int]int{} // number of remaining units by size
		for u := range p.o.Structure.unitCount(l) {
			if e := weak.unitElements(u); keep[e[0]] {
				remaining[len(e)]++
			}
		}
		dropped := map[int]int{}
		removable := weak.keys()
		slices.Sort(removable)
		for _, k := range removable {
			if k == keepAlways {
				break
			}
			e := weak.unitElements(k.unit())
			if n := len(e); keep[e[0]] && dropped[n] < removedCount(fraction, remaining[n]) {
				dropped[n]++
				set(k, false)
			}
		}
		var masked []key
		for u := range p.o.Structure.unitCount(l) {
			if e := strong.unitElements(u); !keep[e[0]] {
				masked = append(masked, keyOf(mean(grow, e), u))
			}
		}
		slices.Sort(masked)
		for _, k := range slices.Backward(masked) {
			if n := len(weak.unitElements(k.unit())); dropped[n] > 0 {
				dropped[n]--
				set(k, true)
			}
		}
	}
	p.mask = keep
}

// mean is the mean of the elements of x with the given indices, summed in float64.
func mean(x []float32, of []int) float32 {
	var sum float64
	for _, i := range of {
		sum += float64(x[i])
	}
	return float32(sum / float64(len(of)))
}
