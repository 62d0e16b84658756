package cluster

import "fmt"

// Torus joins each host of a grid to its four neighbours; rows and columns are closed
// to rings. Host r·cols + c stands in row r and column c. Messages go along the row
// first, then along the column, the shorter way around.
func Torus(rows, cols int, c Cable) (*Topology, error) {
	name := fmt.Sprintf("torus:%d,%d", rows, cols)
	hosts, err := product(name, rows, cols)
	if err != nil {
		return nil, err
	}
	t, err := newTopology(name, hosts, c)
	if err != nil {
		return nil, err
	}
	g := &torus{cols: cols}
	for r := range rows {
		g.rows = append(g.rows, t.newRing(cols, c, func(i int) int { return r*cols + i }))
	}
	for col := range cols {
		g.columns = append(g.columns, t.newRing(rows, c, func(i int) int { return i*cols + col }))
	}
	t.router = g
	return t, nil
}

type torus struct {
	cols          int
	rows, columns []ring
}

func (g *torus) route(path []int, from, to int) []int {
	r, c := from/g.cols, from%g.cols
	r2, c2 := to/g.cols, to%g.cols
	return g.columns[c2].route(g.rows[r].route(path, c, c2), r, r2)
}

// ring is the links from each place to the next one.
type ring []int

// newRing closes n hosts to a ring; a single one needs no link.
func (t *Topology) newRing(n int, c Cable, host func(i int) int) ring {
	var ahead ring
	for i := range n {
		if n > 1 {
			ahead = append(ahead, t.join(host(i), host((i+1)%n), c))
		}
	}
	return ahead
}

// route appends the shorter way around. Half around goes ahead from even places and
// back from odd ones, so that both directions carry as much.
func (g ring) route(path []int, from, to int) []int {
	n := len(g)
	if from == to {
		return path
	}
	ahead := (to - from + n) % n
	if 2*ahead < n || 2*ahead == n && from%2 == 0 {
		for i := from; i != to; i = (i + 1) % n {
			path = append(path, g[i])
		}
		return path
	}
	for i := from; i != to; i = (i + n - 1) % n {
		path = append(path, back(g[(i+n-1)%n]))
	}
	return path
}
