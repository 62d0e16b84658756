package obs

import "math"

// Allocate divides a number of removed weights among layers. removals are those of each layer in order, with increases in one
// unit. Blocks of at most budget weights go, one after the other, each the next one of the layer where the error grows
// least for each weight. The result is the number of removals of each layer.
func Allocate(removals [][]Removal, budget int) []int {
	next := make([]int, len(removals))
	for {
		best, least := -1, math.Inf(1)
		for i, list := range removals {
			if next[i] == len(list) {
				continue
			}
			if r := list[next[i]]; r.Increase/float64(r.Weights) < least {
				best, least = i, r.Increase/float64(r.Weights)
			}
		}
		if best < 0 {
			return next
		}
		if budget -= removals[best][next[best]].Weights; budget < 0 {
			return next
		}
		next[best]++
	}
}
