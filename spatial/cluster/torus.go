package cluster

import "fmt"

// Torus connects each host of a grid to its four neighbours; rows and columns are
// closed to rings. Host r·cols + c is in row r and column c. It needs no switches.
//
// Dimension-order routing: along the row, then along the column, each in the
// shorter direction. The longest path has ⌊rows/2⌋ + ⌊cols/2⌋ links.
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

// torus routes messages of Torus.
type torus struct {
	cols          int
	rows, columns []ring
}

// route appends the path between two hosts: along the row, then along the column.
func (g *torus) route(path []int, from, to int) []int {
	r, c := from/g.cols, from%g.cols
	r2, c2 := to/g.cols, to%g.cols
	return g.columns[c2].route(g.rows[r].route(path, c, c2), r, r2)
}

// ring holds the links from each position to the next one.
type ring []int

// newRing connects n hosts to a ring; a single host needs no link.
func (t *Topology) newRing(n int, c Cable, host func(i int) int) ring {
	var ahead ring
	for i := range n {
		if n > 1 {
			ahead = append(ahead, t.join(host(i), host((i+1)%n), c))
		}
	}
	return ahead
}

// route appends the shorter path. For equal lengths even positions go forward and
// odd ones backward, which balances the load.
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
