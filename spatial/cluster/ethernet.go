package cluster

import "fmt"

// Ethernet connects hosts to one switch: a crossbar, usually with EthernetCable.
func Ethernet(hosts int, c Cable) (*Topology, error) {
	return newSwitched(fmt.Sprintf("ethernet:%d", hosts), hosts, hosts, c)
}
