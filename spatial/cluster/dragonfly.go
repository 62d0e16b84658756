package cluster

import "fmt"

// Dragonfly has groups of a routers. The routers of a group are fully connected;
// each has p hosts and h links to other groups. There are a·h + 1 groups, so every
// two groups share one link, and p·a·(a·h + 1) hosts.
//
// Minimal routing: at most one hop in the source group, one between groups and one
// in the destination group. Adversarial traffic between two groups shares their
// single link; the non-minimal routing that avoids this is not modelled.
//
// Errors: more hosts than the simulation supports.
// Source: Kim, Dally, Scott and Abts 2008, doi:10.1109/ISCA.2008.19.
func Dragonfly(p, a, h int, c Cable) (*Topology, error) {
	name := fmt.Sprintf("dragonfly:%d,%d,%d", p, a, h)
	outward, err := product(name, a, h)
	if err != nil {
		return nil, err
	}
	groups := outward + 1
	hosts, err := product(name, p, a, groups)
	if err != nil {
		return nil, err
	}
	t, err := newTopology(name, hosts, c)
	if err != nil {
		return nil, err
	}
	d := &dragonfly{p: p, a: a, h: h}
	router := t.addSwitchPoints(a * groups)
	t.Switches = a * groups
	for host := range t.Hosts {
		d.host = append(d.host, t.join(host, router[host/p], c))
	}
	d.local, d.global = make([][]int, a*groups), make([][]int, groups)
	for r := range router {
		d.local[r] = make([]int, a)
	}
	for g := range groups {
		for i := range a {
			for j := range i {
				link := t.join(router[g*a+i], router[g*a+j], c)
				d.local[g*a+i][j], d.local[g*a+j][i] = link, back(link)
			}
		}
		d.global[g] = make([]int, groups)
		for to := range g {
			link := t.join(router[d.gateway(g, to)], router[d.gateway(to, g)], c)
			d.global[g][to], d.global[to][g] = link, back(link)
		}
	}
	t.router = d
	return t, nil
}

// dragonfly routes messages of Dragonfly.
type dragonfly struct {
	p, a, h int
	host    []int   // by host: link to its router
	local   [][]int // by router: links to the routers of its group
	global  [][]int // by group: links to the other groups
}

// gateway returns the router of a group that has the link to group to. Global port
// k of a group connects to the group k+1 positions further.
func (d *dragonfly) gateway(group, to int) int {
	groups := d.a*d.h + 1
	k := (to - group - 1 + groups) % groups
	return group*d.a + k/d.h
}

// route appends the minimal path between two hosts.
func (d *dragonfly) route(path []int, from, to int) []int {
	a, b := from/d.p, to/d.p // routers
	path = append(path, d.host[from])
	if g, g2 := a/d.a, b/d.a; g != g2 {
		path = d.inside(path, a, d.gateway(g, g2))
		path = append(path, d.global[g][g2])
		a = d.gateway(g2, g)
	}
	path = d.inside(path, a, b)
	return append(path, back(d.host[to]))
}

// inside appends the hop between two routers of a group.
func (d *dragonfly) inside(path []int, a, b int) []int {
	if a == b {
		return path
	}
	return append(path, d.local[a][b%d.a])
}
