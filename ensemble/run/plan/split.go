package plan

import (
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
)

// SplitResult is how a mesh of ranks divides the training step.
type SplitResult struct {
	Mesh  string
	Grid  *ensemble.Grid
	Parts []SplitPart // parts of the input, by rank
	Halos []SplitHalo // halos of the forward pass, in the order of their exchange
}

// SplitPart is the part of a field that a rank owns or needs.
type SplitPart struct{ Rows, Columns spatial.Interval }

// SplitHalo is the halo exchange of one value. In the backward pass its gradient travels the opposite way.
type SplitHalo struct {
	Producer, Consumer string      // operations that compute the value, and that need it
	Shape              graph.Shape // shape of the complete value
	// Own is what each rank owns, and Need what it reads, by rank; along longitude Need may wrap around.
	Own, Need []SplitPart
	Bytes     int64 // sent by the rank that sends most
}

// Split divides the training step over a mesh such as "lat:2 lon:2", as its ranks do. Nothing is computed.
//
// Errors: exit 64 for an invalid mesh, or one that does not fit network and grid; 65 and 66 for the forecast
// files.
func Split(ctx context.Context, c *config.TrainConfig, mesh string) (*SplitResult, error) {
	m, err := spatial.ParseMesh(mesh)
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: err.Error(), At: mesh, Fix: `write it as "lat:2 lon:2"`, Err: err}
	}
	grid, err := explain.GridOf(ctx, c)
	if err != nil {
		return nil, err
	}
	s := (&explain.Options{Config: c}).Subject()
	g, err := s.Spec.Graph(&s.Task, grid, s.Batch, s.Seed, s.Loss)
	if err != nil {
		return nil, err
	}
	cut, err := spatial.Shard(g, m, 0)
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the mesh does not fit the network", At: mesh, Why: err.Error(), Fix: "give fewer ranks along this axis", Err: err}
	}
	out := &SplitResult{Mesh: m.String(), Grid: grid}
	first := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Kind == graph.KindInput && len(n.Shape) == fieldAxes })
	for rank := range m.Size() {
		out.Parts = append(out.Parts, splitPart(m.Owned(cut.Inputs[g.Nodes[first].Name], g.Nodes[first].Shape, rank)))
	}
	for _, n := range cut.Local.Nodes {
		if p, _, ok := spatial.RedistributionOf(n); ok && len(p.Shape) == fieldAxes {
			h, err := splitHalo(cut.Local, n, p)
			if err != nil {
				return nil, err
			}
			out.Halos = append(out.Halos, h)
		}
	}
	return out, nil
}

// fieldAxes is the number of axes of fields in a network: sample, channel, level, row, column.
const fieldAxes = 5

// splitPart returns rows and columns of a box.
func splitPart(b spatial.Box) SplitPart { return SplitPart{b[3], b[4]} }

// splitHalo returns the halo exchange of a value.
func splitHalo(g *graph.Graph, n *graph.Node, p spatial.Redistribution) (h SplitHalo, err error) {
	h = SplitHalo{Producer: opName(g.Nodes[n.In[0]]), Shape: p.Shape}
	for _, user := range g.Nodes {
		if slices.Contains(user.In, n.ID) {
			h.Consumer = opName(user)
			break
		}
	}
	for rank := range p.Mesh.Size() {
		h.Own, h.Need = append(h.Own, splitPart(p.Mesh.Owned(p.From, p.Shape, rank))), append(h.Need, splitPart(p.Need.Of(rank)))
	}
	moves, err := p.Moves()
	sent := make([]int64, p.Mesh.Size())
	for _, move := range moves {
		if move.From != move.To {
			sent[move.From] += int64(move.At.Size() * n.DType.Bytes())
		}
	}
	h.Bytes = slices.Max(sent)
	return h, err
}

// opName is the operation of a value, or its name.
func opName(n *graph.Node) string {
	if n.Op != nil {
		return n.Op.Name
	}
	return n.Name
}
