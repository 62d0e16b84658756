package search

import "math"

// spread is a distribution of times on a grid: time first+k, in cells of the grid, has the probability p[k].
type spread struct {
	first int
	p     []float64
}

// negligible is the probability of the tails that operations cut off.
const negligible = 1e-13

// pointAt is a certain time, in cells. Between two points of the grid it is distributed over both, so that the mean is exact.
func pointAt(at float64) spread {
	low := math.Floor(at)
	if at == low {
		return spread{int(low), []float64{1}}
	}
	return spread{int(low), []float64{low + 1 - at, at - low}}
}

// mixed is a draw from the distributions, each with its weight. The weights add up to 1.
func mixed(of []spread, weights []float64) spread {
	first, last := math.MaxInt, math.MinInt
	for _, s := range of {
		first, last = min(first, s.first), max(last, s.first+len(s.p))
	}
	out := spread{first, make([]float64, last-first)}
	for i, s := range of {
		for k, p := range s.p {
			out.p[s.first-first+k] += weights[i] * p
		}
	}
	return out
}

// trimmed cuts off negligible tails. The rest has the probability 1 again, since powers of distribution functions magnify what
// is missing.
func (s spread) trimmed() spread {
	lo, hi := 0, len(s.p)
	for tail := 0.0; lo < hi-1 && tail+s.p[lo] < negligible; lo++ {
		tail += s.p[lo]
	}
	for tail := 0.0; hi > lo+1 && tail+s.p[hi-1] < negligible; hi-- {
		tail += s.p[hi-1]
	}
	out := spread{s.first + lo, s.p[lo:hi]}
	sum := 0.0
	for _, p := range out.p {
		sum += p
	}
	for k := range out.p {
		out.p[k] /= sum
	}
	return out
}

// plus is the sum of two independent draws.
func (s spread) plus(t spread) spread {
	out := spread{s.first + t.first, make([]float64, len(s.p)+len(t.p)-1)}
	for i, p := range s.p {
		if p == 0 {
			continue
		}
		for k, q := range t.p {
			out.p[i+k] += p * q
		}
	}
	return out.trimmed()
}

// negative is the negative draw.
func (s spread) negative() spread {
	out := spread{1 - s.first - len(s.p), make([]float64, len(s.p))}
	for k, p := range s.p {
		out.p[len(s.p)-1-k] = p
	}
	return out
}

// positive replaces draws below 0 by 0.
func (s spread) positive() spread {
	if s.first >= 0 {
		return s
	}
	out := spread{0, make([]float64, max(1, s.first+len(s.p)))}
	for k, p := range s.p {
		out.p[max(0, s.first+k)] += p
	}
	return out
}

// mean is in cells.
func (s spread) mean() (m float64) {
	for k, p := range s.p {
		m += p * float64(s.first+k)
	}
	return m
}

// below returns the probability of a draw of at most a time.
func (s spread) below(at int) (sum float64) {
	for _, p := range s.p[:min(max(0, at+1-s.first), len(s.p))] {
		sum += p
	}
	return min(1, sum)
}

// draws is a number of independent draws from a distribution.
type draws struct {
	of    spread
	count float64
}

// largest is the largest of all draws: its distribution function is the product of theirs.
func largest(all []draws) spread {
	return extreme(all, func(s spread) spread { return s })
}

// least is the least of all draws.
func least(all []draws) spread {
	return extreme(all, spread.negative).negative()
}

// extreme is the largest of all draws after a change of sign or none.
func extreme(all []draws, signed func(spread) spread) spread {
	first, last := math.MinInt, math.MinInt
	for _, d := range all {
		s := signed(d.of)
		if d.count > 0 {
			first, last = max(first, s.first), max(last, s.first+len(s.p))
		}
	}
	out := spread{first, make([]float64, last-first)}
	for k := range out.p {
		out.p[k] = 1
	}
	for _, d := range all {
		if d.count <= 0 {
			continue
		}
		s := signed(d.of)
		sum := s.below(first - 1)
		for k := range out.p {
			if i := first + k - s.first; i >= 0 && i < len(s.p) {
				sum = min(1, sum+s.p[i])
			} else if i >= len(s.p) {
				sum = 1
			}
			out.p[k] *= math.Pow(sum, d.count)
		}
	}
	for k := len(out.p) - 1; k > 0; k-- {
		out.p[k] -= out.p[k-1]
	}
	return out.trimmed()
}
