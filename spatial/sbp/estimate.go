package sbp

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Estimate is the predicted cost of a training step under a plan.
type Estimate struct {
	Seconds float64
	// Communication: Forward and Backward are conversions and halos of values and
	// of their gradients, Reduce the sums of the gradients of weights.
	Forward, Backward, Reduce Cost
	Compute                   float64 // s
	// Memory is the maximum number of bytes of a rank: weights, gradients,
	// optimiser state, and operands with their halos, which the backward pass
	// reads. An operand of two nodes counts twice.
	Memory int64
}

// Communication returns the total communication.
func (e Estimate) Communication() Cost { return e.Forward.Add(e.Backward).Add(e.Reduce) }

// phase is the contribution of a node or an edge to one pass.
type phase struct {
	moved   Cost
	seconds float64 // communication and computing
	compute float64 // s
}

// nodeCost is the contribution of a node under a rule, independent of its
// neighbours.
type nodeCost struct {
	forward, backward, reduce phase
	memory                    int64
}

// edgeCost is the contribution of an edge under the rules of both ends.
type edgeCost struct{ forward, backward phase }

// costTable is a table of all costs of a network on a machine. The cost of a plan
// is then a sum of table entries: own[v][i] of node v under its rule i, and
// edge[v][k][i][j] of its operand k, computed by a node under rule j.
type costTable struct {
	network Network
	machine Machine
	rules   [][]Rule
	own     [][]nodeCost
	edge    [][][][]edgeCost
}

// newCostTable computes the costs of all rules of all nodes, and of all edges.
//
// Errors: ErrNetwork, also for a node without a rule on the mesh.
func newCostTable(n Network, m Machine) (*costTable, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	c := &costTable{network: n, machine: m}
	k := &Converter{Mesh: m.Mesh, Link: m.Link, Merge: m.Merge, Unit: max(n.Unit, 1)}
	read := n.hasReaders()
	for v, node := range n.Nodes {
		rules := node.Op.Rules(m.Mesh)
		if len(rules) == 0 {
			return nil, fmt.Errorf("node %q has no rule on the mesh %v: %w", node.Name, m.Mesh, ErrNetwork)
		}
		c.rules = append(c.rules, rules)
		c.own = append(c.own, make([]nodeCost, len(rules)))
		for i, r := range rules {
			if err := c.priceOwn(k, v, i, r, read[v]); err != nil {
				return nil, fmt.Errorf("node %q: %w", node.Name, err)
			}
		}
		edges := make([][][]edgeCost, len(node.From))
		for operand, u := range node.From {
			if u == Input {
				continue
			}
			edges[operand] = make([][]edgeCost, len(rules))
			for i, r := range rules {
				for _, s := range c.rules[u] {
					p, err := c.priceEdge(k, node.Op.X[operand], s, r, operand)
					if err != nil {
						return nil, fmt.Errorf("node %q: %w", node.Name, err)
					}
					edges[operand][i] = append(edges[operand][i], p)
				}
			}
		}
		c.edge = append(c.edge, edges)
	}
	return c, nil
}

// add adds the cost of a conversion.
func (p *phase) add(k *Converter, shape graph.Shape, from, to Signature) error {
	path, err := k.Path(shape, from, to)
	if err != nil {
		return err
	}
	p.move(k, path.Cost)
	return nil
}

// move adds a communication cost and its time.
func (p *phase) move(k *Converter, c Cost) {
	p.moved = p.moved.Add(c)
	p.seconds += k.Link.Time(c)
}

// priceEdge returns the cost of converting an operand, and its gradient back.
func (c *costTable) priceEdge(k *Converter, shape graph.Shape, from, to Rule, operand int) (p edgeCost, err error) {
	if err = p.forward.add(k, shape, from.Y, to.X[operand]); err != nil {
		return p, err
	}
	return p, p.backward.add(k, shape, to.DX[operand], from.DY)
}

// priceOwn computes the cost of a node independent of its neighbours: computing,
// halos, the gradients of weights and inputs, and the conversion for the loss.
func (c *costTable) priceOwn(k *Converter, v, i int, r Rule, read bool) error {
	node, mesh, o := c.network.Nodes[v], c.machine.Mesh, &c.own[v][i]
	op := node.Op
	o.forward.compute, o.backward.compute = c.computeTime(op, r)
	o.forward.seconds, o.backward.seconds = o.forward.compute, o.backward.compute
	if op.Window != nil {
		o.forward.move(k, op.ForwardHalo(mesh, r).Cost(k.Unit))
		o.backward.move(k, op.BackwardHalo(mesh, r).Cost(k.Unit))
	}
	if !read {
		if err := o.forward.add(k, op.Y, r.Y, r.DY); err != nil {
			return err
		}
	}
	for operand, u := range node.From {
		if u == Input && c.network.InputGradients {
			if err := o.backward.add(k, op.X[operand], r.DX[operand], r.X[operand]); err != nil {
				return err
			}
		}
	}
	if op.W != nil {
		steps := []Signature{r.DW, r.W}
		if c.network.Sharded {
			steps = []Signature{r.DW, r.optimiserSignature(), r.W}
		}
		for s := range len(steps) - 1 {
			if err := o.reduce.add(k, op.W, steps[s], steps[s+1]); err != nil {
				return err
			}
		}
	}
	for rank := range mesh.Size() {
		o.memory = max(o.memory, c.memory(op, r, rank))
	}
	return nil
}

// optimiserSignature returns the signature of the weights' optimiser state if the
// optimiser is sharded.
func (r Rule) optimiserSignature() Signature { return r.DW.replaced(P, S(0)) }

// computeTime returns the computing time, in seconds, of the rank with the largest
// parts, rank 0. The gradients of operands and of weights cost as much as the
// result each.
func (c *costTable) computeTime(op Op, r Rule) (forward, backward float64) {
	if c.machine.Rate == 0 {
		return 0, 0
	}
	shapes := func(s graph.Shape, sig Signature) graph.Shape {
		return part(c.machine.Mesh, s, sig, 0).Shape()
	}
	var x []graph.Shape
	for k := range op.X {
		x = append(x, shapes(op.X[k], r.X[k]))
	}
	forward = op.Work(x, shapes(op.W, r.W), shapes(op.Y, r.Y)) / c.machine.Rate
	if op.W == nil {
		return forward, forward
	}
	return forward, 2 * forward
}

// memory returns the bytes that a rank holds for a node.
func (c *costTable) memory(op Op, r Rule, rank int) int64 {
	mesh := c.machine.Mesh
	var n int64
	for k, x := range op.X {
		box := part(mesh, x, r.X[k], rank)
		if k == 0 && op.Window != nil {
			box = op.ForwardHalo(mesh, r).Box(rank)
		}
		n += int64(box.Size())
	}
	if op.W != nil {
		weights := int64(part(mesh, op.W, r.W, rank).Size())
		kept := weights
		if c.network.Sharded {
			kept = int64(part(mesh, op.W, r.optimiserSignature(), rank).Size())
		}
		n += 2*weights + int64(c.network.State)*kept
	}
	return n * int64(max(c.network.Unit, 1))
}

// estimate returns the cost of a choice of one rule for each node.
func (c *costTable) estimate(choice []int) Estimate {
	var e Estimate
	backward := make([]float64, len(choice)) // s, by node
	var seconds float64
	for v, i := range choice {
		o := &c.own[v][i]
		e.Memory += o.memory
		e.Compute += o.forward.compute + o.backward.compute
		e.Forward, e.Backward, e.Reduce = e.Forward.Add(o.forward.moved), e.Backward.Add(o.backward.moved), e.Reduce.Add(o.reduce.moved)
		seconds += o.forward.seconds
		backward[v] += o.backward.seconds
		for k, u := range c.network.Nodes[v].From {
			if u == Input {
				continue
			}
			p := &c.edge[v][k][i][choice[u]]
			e.Forward, e.Backward = e.Forward.Add(p.forward.moved), e.Backward.Add(p.backward.moved)
			seconds += p.forward.seconds
			backward[v] += p.backward.seconds
		}
	}
	e.Seconds = seconds + c.backwardTime(choice, backward)
	return e
}

// backwardTime returns the time of the backward pass and of the gradient sums. With
// overlap the sums form a queue during the pass: a sum starts when its gradient is
// ready and the previous sum has ended.
func (c *costTable) backwardTime(choice []int, backward []float64) float64 {
	var now, reduced float64
	for v := len(choice) - 1; v >= 0; v-- {
		now += backward[v]
		if c.machine.Overlap {
			reduced = max(reduced, now)
		}
		reduced += c.own[v][choice[v]].reduce.seconds
	}
	if c.machine.Overlap {
		return max(now, reduced)
	}
	return now + reduced
}
