package cluster

import "fmt"

// fabric is a non-blocking switched network between ports: one switch, or two
// levels of leaf and spine switches if there are more ports than a switch has.
type fabric struct {
	ports   []int   // by port: link from the node into the fabric
	perLeaf int     // ports of a leaf that connect to nodes
	up      [][]int // by leaf: links to the spines
}

// levels returns the numbers of leaves and spines for n ports. Half the ports of a
// leaf connect to spines.
func levels(n, radix int) (leaves, spines int) {
	if n <= radix {
		return 1, 0
	}
	return (2*n + radix - 1) / radix, (n + radix - 1) / radix
}

// newFabric connects nodes by switches with radix ports.
//
// Errors: more than radix²/2 nodes; an odd radix with more than one switch.
func (t *Topology) newFabric(nodes []int, radix int, c Cable) (*fabric, error) {
	if len(nodes) > radix && (radix < 2 || radix%2 != 0 || len(nodes) > radix*radix/2) {
		return nil, usage(fmt.Sprintf("no network %s", t.Name),
			fmt.Sprintf("two levels of switches with %d ports connect up to %d nodes, and the number of ports must be even; got %d nodes", radix, radix*radix/2, len(nodes)),
			"choose larger switches or fewer hosts")
	}
	leaves, spines := levels(len(nodes), radix)
	f := &fabric{perLeaf: len(nodes)}
	if spines > 0 {
		f.perLeaf = radix / 2
	}
	leaf, spine := t.addSwitchPoints(leaves), t.addSwitchPoints(spines)
	for i, n := range nodes {
		f.ports = append(f.ports, t.join(n, leaf[i/f.perLeaf], c))
	}
	if spines == 0 {
		return f, nil
	}
	f.up = make([][]int, leaves)
	for i, l := range leaf {
		for j := range radix / 2 {
			f.up[i] = append(f.up[i], t.join(l, spine[j%spines], c))
		}
	}
	return f, nil
}

// route appends the links between two ports. pick selects one of the paths over the
// spines.
func (f *fabric) route(path []int, from, to int, pick uint64) []int {
	path = append(path, f.ports[from])
	if a, b := from/f.perLeaf, to/f.perLeaf; a != b {
		i := pick % uint64(len(f.up[a]))
		path = append(path, f.up[a][i], back(f.up[b][i]))
	}
	return append(path, back(f.ports[to]))
}

// switched is a fabric with a host at each port.
type switched struct{ *fabric }

// route appends the path between two hosts, over a spine selected by their hash.
func (s switched) route(path []int, from, to int) []int {
	return s.fabric.route(path, from, to, hashPair(from, to))
}

// newSwitched returns a network of hosts connected by one fabric.
func newSwitched(name string, hosts, radix int, c Cable) (*Topology, error) {
	t, err := newTopology(name, hosts, c)
	if err != nil {
		return nil, err
	}
	nodes := make([]int, hosts)
	for i := range nodes {
		nodes[i] = i
	}
	f, err := t.newFabric(nodes, radix, c)
	if err != nil {
		return nil, err
	}
	leaves, spines := levels(hosts, radix)
	t.Switches = leaves + spines
	t.router = switched{f}
	return t, nil
}
