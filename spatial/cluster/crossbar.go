package cluster

import "fmt"

// Crossbar joins hosts by one switch that has a port for each.
func Crossbar(hosts int, c Cable) (*Topology, error) {
	return newSwitched(fmt.Sprintf("crossbar:%d", hosts), hosts, hosts, c)
}
