package prune

import (
	"math"
	"slices"
)

// dropAndGrow removes a share of the units that every layer has left, those of the smallest mean
// |w|, and puts back as many of those that are masked then, with the highest scores to grow: at
// equal scores the first ones. What has been removed just now may return, and keeps its weights
// then. The number of weights of a layer stays as it is, as units are exchanged for such of
// their size.
func (p *Pruner) dropAndGrow(share float64, w, grow []float32) {
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
		left := map[int]int{} // units by their size
		for u := range p.o.Structure.unitCount(l) {
			if e := weak.unitElements(u); keep[e[0]] {
				left[len(e)]++
			}
		}
		gone := map[int]int{}
		removable := weak.keys()
		slices.Sort(removable)
		for _, k := range removable {
			if k == keepAlways {
				break
			}
			e := weak.unitElements(k.unit())
			if n := len(e); keep[e[0]] && gone[n] < removedCount(share, left[n]) {
				gone[n]++
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
			if n := len(weak.unitElements(k.unit())); gone[n] > 0 {
				gone[n]--
				set(k, true)
			}
		}
	}
	p.mask = keep
}

// mean is that of some elements of x.
func mean(x []float32, of []int) float32 {
	var sum float64
	for _, i := range of {
		sum += float64(x[i])
	}
	return float32(sum / float64(len(of)))
}
