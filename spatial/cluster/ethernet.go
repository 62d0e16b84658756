package cluster

import "fmt"

// Ethernet joins hosts by their network cards and one switch: a crossbar, whose cables
// are usually EthernetCable.
func Ethernet(hosts int, c Cable) (*Topology, error) {
	return newSwitched(fmt.Sprintf("ethernet:%d", hosts), hosts, hosts, c)
}
