package cluster

import "fmt"

// Crossbar connects hosts to one switch with a port for each. Every path has two
// links.
func Crossbar(hosts int, c Cable) (*Topology, error) {
	return newSwitched(fmt.Sprintf("crossbar:%d", hosts), hosts, hosts, c)
}
