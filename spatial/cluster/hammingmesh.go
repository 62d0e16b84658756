package cluster

import "fmt"

// switchRadix is the ports of the switches of a HammingMesh.
const switchRadix = 64

// HammingMesh joins boards of a×b hosts, a mesh each, that stand in y rows of x. Each
// row of hosts is joined at the west and east edges of its boards to a non-blocking
// network, each column at the north and south edges; hosts pass messages on. A network
// has one switch, or two levels beyond 64 ports, and none where a row has one board:
// so one board is a mesh, and boards of one host are a HyperX.
//
// Hosts count by board along the rows, and so inside a board. Messages go along
// the row first, then along the column. They leave a board by the edge that is nearer,
// and enter the other one by the edge nearer to the end.
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

// hxSwitches is the number of switches for n networks that join boards at both edges;
// small networks share one.
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

type hammingMesh struct {
	a, b, x       int
	rows, columns []*line // of hosts, over all boards
}

// host is the one in a row and column of all boards.
func (m *hammingMesh) host(r, c int) int {
	board := r/m.a*m.x + c/m.b
	return (board*m.a+r%m.a)*m.b + c%m.b
}

// position is the row and column of a host.
func (m *hammingMesh) position(host int) (r, c int) {
	board, inside := host/(m.a*m.b), host%(m.a*m.b)
	return board/m.x*m.a + inside/m.b, board%m.x*m.b + inside%m.b
}

func (m *hammingMesh) route(path []int, from, to int) []int {
	r, c := m.position(from)
	r2, c2 := m.position(to)
	return m.columns[c2].route(m.rows[r].route(path, c, c2), r, r2)
}

// line is a row or a column of hosts.
type line struct {
	width int     // hosts of a board
	ahead []int   // link from each place to the next one of its board
	net   *fabric // port 2u is the low edge of board u, port 2u+1 the high one
}

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

// edge is the port of board u nearest to place i. In the middle the other end of the
// way decides, so that both edges carry as much: even goes high.
func (l *line) edge(u, i, other int) int {
	low, high := i-u*l.width, (u+1)*l.width-1-i
	if low < high || low == high && other%2 != 0 {
		return 2 * u
	}
	return 2*u + 1
}

// at is the place of a port.
func (l *line) at(port int) int { return port/2*l.width + port%2*(l.width-1) }

// walk appends the links along a board.
func (l *line) walk(path []int, from, to int) []int {
	for ; from < to; from++ {
		path = append(path, l.ahead[from])
	}
	for ; from > to; from-- {
		path = append(path, back(l.ahead[from-1]))
	}
	return path
}
