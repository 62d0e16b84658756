package channels

import "github.com/ensemble-weather/ensemble/engine/graph"

// Sets numbers the channels along an axis of a parameter: channels of layers that follow each other have the same number,
// such as output channel i of a filter and the input channel of the next filter that reads it.
//
// Shape: [size of the axis].
// Errors: nil for a name that the network does not have.
func (c *Network) Sets(param string, axis int) (sets []int) {
	for _, n := range c.g.Nodes {
		if n.Kind == graph.KindParam && n.Name == param {
			for i := range n.Shape[axis] {
				sets = append(sets, c.ties.set(n.ID, axis, i))
			}
			return sets
		}
	}
	return nil
}
