package cluster

import "fmt"

// HamiltonianCycles are two Hamiltonian cycles of a torus, as hosts in order, that share no
// cable: rings along which all links of the torus carry an all-reduce at once. They are
// known where cols divides rows and rows has no divisor in common with cols−1, or the
// other way around, and both are above 2.
//
// Source: Hoefler et al. 2022, arXiv:2209.01346, appendix.
func HamiltonianCycles(rows, cols int) ([2][]int, error) {
	switch {
	case hasCycles(rows, cols):
		return hamiltonianCycles(rows, cols, func(r, c int) int { return r*cols + c }), nil
	case hasCycles(cols, rows):
		return hamiltonianCycles(cols, rows, func(r, c int) int { return c*cols + r }), nil
	}
	return [2][]int{}, usage(fmt.Sprintf("no two cycles of torus:%d,%d", rows, cols),
		"the columns have to divide the rows, which share no divisor with the columns less one", "choose another torus, such as a square one")
}

func hasCycles(rows, cols int) bool {
	gcd, rest := rows, cols-1
	for rest > 0 {
		gcd, rest = rest, gcd%rest
	}
	return cols > 2 && rows%cols == 0 && gcd == 1
}

// hamiltonianCycles makes the first one by going along a row and down one at its end, each row
// shifted by one; the second one is all that is left.
func hamiltonianCycles(rows, cols int, host func(r, c int) int) (both [2][]int) {
	type place struct{ r, c int }
	first := make([]place, rows*cols)
	for i := range first {
		r := i / cols
		first[i] = place{r, ((i-r)%cols + cols) % cols}
		both[0] = append(both[0], host(first[i].r, first[i].c))
	}
	down := make([]bool, len(first)) // the step down from a place is of the first
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
