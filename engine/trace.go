package engine

import (
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// KernelTime is one kernel of the last run of a plan: its work, and when it
// ran.
type KernelTime struct {
	Movement
	Layer string        `json:"layer,omitempty"` // parameter that it reads, or whose gradient it computes
	Start time.Duration `json:"start_ns"`        // since the start of the run
	// of the kernel; on a device with memory of its own until the device has
	// finished
	Duration time.Duration `json:"duration_ns"`
}

// Timeline lists the kernels of the last run in order of execution, with bounds
// by the peaks as in Movement. It is empty unless the plan was compiled with
// Profile and has run.
func (p *Plan) Timeline(peak Peaks) []KernelTime {
	if p.began.IsZero() {
		return nil
	}
	layers := p.layers()
	out := make([]KernelTime, len(p.kernels))
	for i, m := range p.Movement(peak) {
		k := &p.kernels[i]
		out[i] = KernelTime{Movement: m, Layer: layers[m.Node], Start: k.start.Sub(p.began), Duration: k.last}
	}
	return out
}

// ResetTimes discards the measured times, so that means exclude the first runs, which are
// slower. Times of the last run, which Timeline returns, stay.
func (p *Plan) ResetTimes() {
	for i := range p.kernels {
		p.kernels[i].ns, p.kernels[i].runs = 0, 0
	}
}

// layers names, for every node, the parameter that it belongs to: the first one among its
// operands, or the one whose gradient it is. It is empty for operations without a parameter,
// such as pooling.
func (p *Plan) layers() []string {
	nodes := p.graph.Nodes
	out := make([]string, len(nodes))
	for _, d := range p.graph.Grads {
		out[p.graph.AliasRoot(d.Value)] = nodes[d.Param].Name
	}
	for _, n := range nodes {
		for _, in := range n.In {
			if s := nodes[p.graph.AliasRoot(in)]; out[n.ID] == "" && s.Kind == graph.KindParam {
				out[n.ID] = s.Name
			}
		}
	}
	return out
}
