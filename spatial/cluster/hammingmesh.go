package cluster

import "fmt"

// switchRadix is the number of ports of a switch in a HammingMesh.
const switchRadix = 64

// HammingMesh consists of boards with a×b hosts each, connected as a mesh, in y
// rows of x boards. The west and east edges of the boards in a row of hosts connect
// to a non-blocking network, the north and south edges in a column to another.
// Hosts forward messages. Such a network is one switch, or two levels for more than
// 64 ports; a row with one board has none. A single board is therefore a mesh, and
// boards of one host form a HyperX.
//
// Hosts are numbered by board along the rows, and within a board row by row.
// Dimension-order routing: along the row, then along the column. A message leaves a
// board at the nearer edge and enters the other board at the edge nearer to its
// destination.
//
// Source: Hoefler et al. 2022, arXiv:2209.01346.
func HammingMesh(a, b, x, y int, c Cable) (*Topology, error) {
	name := fmt.Sprintf("hx:%d,%d,%d,%d", a, b, x, y)
	hosts, err := product(name, a, b, x, y)
	if err != nil {
		return nil, err
	}
	t, err := newTopology(name, hosts, c)
	if err != nil {
		return nil, err
	}
	m := &hammingMesh{a: a, b: b, x: x}
	for r := range a * y {
		l, err := t.newLine(x, b, c, func(i int) int { return m.host(r, i) })
		if err != nil {
			return nil, err
		}
		m.rows = append(m.rows, l)
	}
	for col := range b * x {
		l, err := t.newLine(y, a, c, func(i int) int { return m.host(i, col) })
		if err != nil {
			return nil, err
		}
		m.columns = append(m.columns, l)
	}
	t.Switches = hxSwitches(a*y, x) + hxSwitches(b*x, y)
	t.router = m
	return t, nil
}

// hxSwitches returns the number of switches for n networks of the given number of
// boards, two ports per board. Networks with few ports share a switch, as its ports
// can be partitioned.
func hxSwitches(n, boards int) int {
	ports := 2 * boards
	if boards == 1 {
		return 0
	}
	if leaves, spines := levels(ports, switchRadix); spines > 0 {
		return n * (leaves + spines)
	}
	shared := switchRadix / ports
	return (n + shared - 1) / shared
}

// hammingMesh routes messages of HammingMesh.
type hammingMesh struct {
	a, b, x       int
	rows, columns []*line // rows and columns of hosts across all boards
}

// host returns the host in a row and column counted across all boards.
func (m *hammingMesh) host(r, c int) int {
	board := r/m.a*m.x + c/m.b
	return (board*m.a+r%m.a)*m.b + c%m.b
}

// position returns the row and column of a host.
func (m *hammingMesh) position(host int) (r, c int) {
	board, inside := host/(m.a*m.b), host%(m.a*m.b)
	return board/m.x*m.a + inside/m.b, board%m.x*m.b + inside%m.b
}

// route appends the path between two hosts: along the row, then along the column.
func (m *hammingMesh) route(path []int, from, to int) []int {
	r, c := m.position(from)
	r2, c2 := m.position(to)
	return m.columns[c2].route(m.rows[r].route(path, c, c2), r, r2)
}

// line is a row or a column of hosts across all boards.
type line struct {
	width int     // hosts per board
	ahead []int   // link from each host to the next one of its board
	net   *fabric // port 2u is the low edge of board u, port 2u+1 the high edge
}

// newLine connects the hosts of a line within each board, and the edges of the
// boards by a fabric.
func (t *Topology) newLine(boards, width int, c Cable, host func(i int) int) (*line, error) {
	l := &line{width: width, ahead: make([]int, boards*width)}
	var edges []int
	for u := range boards {
		low, high := u*width, (u+1)*width-1
		for i := low; i < high; i++ {
			l.ahead[i] = t.join(host(i), host(i+1), c)
		}
		edges = append(edges, host(low), host(high))
	}
	if boards == 1 {
		return l, nil
	}
	var err error
	l.net, err = t.newFabric(edges, switchRadix, c)
	return l, err
}

// route appends the path between two positions of a line.
func (l *line) route(path []int, from, to int) []int {
	u, u2 := from/l.width, to/l.width
	if u == u2 {
		return l.walk(path, from, to)
	}
	exit, entry := l.edge(u, from, to), l.edge(u2, to, from)
	path = l.walk(path, from, l.at(exit))
	path = l.net.route(path, exit, entry, hashPair(from, to))
	return l.walk(path, l.at(entry), to)
}

// edge returns the port of board u nearest to position i. For equal distances the
// other end of the path decides, which balances the load: even positions use the
// high edge.
func (l *line) edge(u, i, other int) int {
	low, high := i-u*l.width, (u+1)*l.width-1-i
	if low < high || low == high && other%2 != 0 {
		return 2 * u
	}
	return 2*u + 1
}

// at returns the position of a port.
func (l *line) at(port int) int { return port/2*l.width + port%2*(l.width-1) }

// walk appends the links between two positions of a board.
func (l *line) walk(path []int, from, to int) []int {
	for ; from < to; from++ {
		path = append(path, l.ahead[from])
	}
	for ; from > to; from-- {
		path = append(path, back(l.ahead[from-1]))
	}
	return path
}
