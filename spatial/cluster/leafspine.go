package cluster

import "fmt"

// LeafSpine is the non-blocking tree of two levels: of the radix ports of a leaf one
// half go to hosts, the other half to spines. Up to radix hosts share one switch.
//
// Errors: more than radix²/2 hosts.
func LeafSpine(hosts, radix int, c Cable) (*Topology, error) {
	return newSwitched(fmt.Sprintf("leafspine:%d,%d", hosts, radix), hosts, radix, c)
}
