package cluster

import "fmt"

// LeafSpine is the non-blocking tree of two levels. Half the ports of a leaf switch
// connect to hosts, the other half to spine switches. Up to radix hosts need only
// one switch.
//
// Errors: more than radix²/2 hosts.
func LeafSpine(hosts, radix int, c Cable) (*Topology, error) {
	return newSwitched(fmt.Sprintf("leafspine:%d,%d", hosts, radix), hosts, radix, c)
}
