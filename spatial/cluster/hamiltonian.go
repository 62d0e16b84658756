package cluster

import "fmt"

// HamiltonianCycles returns two edge-disjoint Hamiltonian cycles of a torus, as
// hosts in order. Two rings along them use all links of the torus at the same time.
// The construction exists if cols divides rows, rows and cols−1 have no common
// divisor, and cols > 2; or with rows and cols exchanged.
//
// Errors: a torus without the construction.
// Source: Hoefler et al. 2022, arXiv:2209.01346, appendix.
func HamiltonianCycles(rows, cols int) ([2][]int, error) {
	switch {
	case hasCycles(rows, cols):
		return hamiltonianCycles(rows, cols, func(r, c int) int { return r*cols + c }), nil
	case hasCycles(cols, rows):
		return hamiltonianCycles(cols, rows, func(r, c int) int { return c*cols + r }), nil
	}
	return [2][]int{}, usage(fmt.Sprintf("no pair of edge-disjoint Hamiltonian cycles for torus:%d,%d", rows, cols),
		"the columns must divide the rows, and rows and columns−1 must have no common divisor", "choose another torus, for example a square one")
}

// hasCycles reports whether the construction exists for these sizes.
func hasCycles(rows, cols int) bool {
	gcd, rest := rows, cols-1
	for rest > 0 {
		gcd, rest = rest, gcd%rest
	}
	return cols > 2 && rows%cols == 0 && gcd == 1
}

// hamiltonianCycles constructs the first cycle row by row, each shifted by one,
// with a step down at the end of a row. The second cycle consists of the remaining
// links.
func hamiltonianCycles(rows, cols int, host func(r, c int) int) (both [2][]int) {
	type place struct{ r, c int }
	first := make([]place, rows*cols)
	for i := range first {
		r := i / cols
		first[i] = place{r, ((i-r)%cols + cols) % cols}
		both[0] = append(both[0], host(first[i].r, first[i].c))
	}
	down := make([]bool, len(first)) // whether the first cycle uses the link down from a position
	along := make([]bool, len(first))
	for i, p := range first {
		switch next := first[(i+1)%len(first)]; {
		case next.c == p.c:
			down[p.r*cols+p.c] = true
		case next.c == (p.c+1)%cols:
			along[p.r*cols+p.c] = true
		}
	}
	at, from := place{}, place{-1, -1}
	for range first {
		both[1] = append(both[1], host(at.r, at.c))
		left, up := place{at.r, (at.c + cols - 1) % cols}, place{(at.r + rows - 1) % rows, at.c}
		for _, step := range []struct {
			to   place
			used bool
		}{
			{place{at.r, (at.c + 1) % cols}, along[at.r*cols+at.c]},
			{place{(at.r + 1) % rows, at.c}, down[at.r*cols+at.c]},
			{left, along[left.r*cols+left.c]},
			{up, down[up.r*cols+up.c]},
		} {
			if !step.used && step.to != from {
				at, from = step.to, at
				break
			}
		}
	}
	return both
}
