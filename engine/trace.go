package engine

import (
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// KernelTime is one kernel of the last run of a plan: what it is, what work was
// counted for it, and when it ran.
type KernelTime struct {
	Op     string      `json:"op"`
	Kernel string      `json:"kernel"` // the implementation
	Layer  string      `json:"layer"`  // parameter that it reads, or whose gradient it gives; may be empty
	Shape  graph.Shape `json:"shape"`  // of the result
	// Backward marks what only gradients depend on.
	Backward bool          `json:"backward"`
	FLOPs    int64         `json:"flops"` // useful ones
	Bytes    int64         `json:"bytes"` // that it must read and write
	Start    time.Duration `json:"start_ns"`
	Duration time.Duration `json:"duration_ns"`
}

// Timeline gives the kernels of the last run in the order in which they ran;
// Start counts from the begin of the run. It is empty unless the plan was
// compiled with Profile and has run.
func (p *Plan) Timeline() []KernelTime {
	if p.began.IsZero() {
		return nil
	}
	layers, forward := p.layers(), p.forward()
	out := make([]KernelTime, 0, len(p.kernels))
	for _, k := range p.kernels {
		n := k.node
		in := p.graph.InShapes(n)
		out = append(out, KernelTime{
			Op: n.Op.Name, Kernel: k.Name, Layer: layers[n.ID], Shape: n.Shape, Backward: !forward[n.ID],
			FLOPs: n.Op.FLOPs(in, n.Shape, n.Attrs), Bytes: n.Op.Bytes(in, n.Shape, n.Attrs),
			Start: k.start.Sub(p.began), Duration: k.last,
		})
	}
	return out
}

// layers names for every node the parameter it belongs to: the first one among
// its operands, or the one whose gradient it is.
func (p *Plan) layers() []string {
	nodes := p.graph.Nodes
	source := func(id int) int { // the value that a reshaped one is
		for nodes[id].Kind == graph.KindOp && nodes[id].Op.Alias {
			id = nodes[id].In[0]
		}
		return id
	}
	out := make([]string, len(nodes))
	for _, d := range p.graph.Grads {
		out[source(d.Value)] = nodes[d.Param].Name
	}
	for _, n := range nodes {
		for _, in := range n.In {
			if s := nodes[source(in)]; out[n.ID] == "" && s.Kind == graph.KindParam {
				out[n.ID] = s.Name
			}
		}
	}
	return out
}

// forward marks what loss, outputs or assigned states depend on.
func (p *Plan) forward() []bool {
	out := make([]bool, len(p.graph.Nodes))
	if p.graph.Loss >= 0 {
		out[p.graph.Loss] = true
	}
	for _, o := range p.graph.Outputs {
		out[o.ID] = true
	}
	for _, a := range p.graph.Assigns {
		out[a.Value] = true
	}
	for id := len(out) - 1; id >= 0; id-- {
		if out[id] {
			for _, in := range p.graph.Nodes[id].In {
				out[in] = true
			}
		}
	}
	return out
}
