package cluster

import "fmt"

// FatTree is the k-ary fat tree of switches with k ports in three levels: k pods of
// k/2 edge and k/2 aggregation switches, (k/2)² core switches and k³/4 hosts. It
// has full bisection bandwidth. Messages go up over switches that a hash of both
// ends selects, and down again; a path has 2, 4 or 6 links.
//
// Errors: an odd k.
// Source: Al-Fares, Loukissas and Vahdat 2008, doi:10.1145/1402958.1402967.
func FatTree(k int, c Cable) (*Topology, error) {
	name := fmt.Sprintf("fattree:%d", k)
	if k < 2 || k%2 != 0 || k > 2*maxHosts {
		return nil, usage("invalid network "+name, "half the ports of a switch connect up and half down, so k must be even", "choose an even number of ports, 2 or more")
	}
	half := k / 2
	t, err := newTopology(name, half*half*k, c)
	if err != nil {
		return nil, err
	}
	f := &fatTree{half: half}
	edge, aggregation, core := t.addSwitchPoints(k*half), t.addSwitchPoints(k*half), t.addSwitchPoints(half*half)
	t.Switches = t.Nodes - t.Hosts
	for h := range t.Hosts {
		f.host = append(f.host, t.join(h, edge[h/half], c))
	}
	f.edge, f.aggregation = make([][]int, k*half), make([][]int, k*half)
	for s := range k * half { // switch s is number s%half of pod s/half
		for j := range half {
			f.edge[s] = append(f.edge[s], t.join(edge[s], aggregation[s/half*half+j], c))
			f.aggregation[s] = append(f.aggregation[s], t.join(aggregation[s], core[s%half*half+j], c))
		}
	}
	t.router = f
	return t, nil
}

// fatTree holds the upward links, by the lower switch and the index of the upper
// one.
type fatTree struct {
	half              int
	host              []int
	edge, aggregation [][]int
}

// route appends the path between two hosts: up to the lowest common level and down.
func (f *fatTree) route(path []int, from, to int) []int {
	a, b := from/f.half, to/f.half // edge switches
	path = append(path, f.host[from])
	if a != b {
		pick := hashPair(from, to)
		i := int(pick % uint64(f.half))
		path = append(path, f.edge[a][i])
		if p, q := a/f.half, b/f.half; p != q { // pods
			j := pick / uint64(f.half) % uint64(f.half)
			path = append(path, f.aggregation[p*f.half+i][j], back(f.aggregation[q*f.half+i][j]))
		}
		path = append(path, back(f.edge[b][i]))
	}
	return append(path, back(f.host[to]))
}
