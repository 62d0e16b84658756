package op_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// strict implements ChannelConstraints and checks the constraints against the
// shapes of a case.
type strict struct {
	t     *testing.T
	in    []graph.Shape
	out   graph.Shape
	reads int
}

func (s *strict) shape(v int) graph.Shape {
	s.reads++
	if v == graph.Result {
		return s.out
	}
	return s.in[v]
}

func (s *strict) Tie(a, b graph.Index, n int) {
	if x, y := s.shape(a.Value)[a.Axis], s.shape(b.Value)[b.Axis]; a.At < 0 || b.At < 0 || a.At+n > x || b.At+n > y {
		s.t.Errorf("ties %d indices from %+v of %d with as many from %+v of %d", n, a, x, b, y)
	}
}

func (s *strict) TieAxes(a, axisA, b, axisB int) {
	if x, y := s.shape(a)[axisA], s.shape(b)[axisB]; x != y {
		s.t.Errorf("ties axis %d of value %d (%d) with axis %d of value %d (%d)", axisA, a, x, axisB, b, y)
	}
}

func (s *strict) PinAxes(v int, why string, axes ...int) {
	if s.shape(v); why == "" || len(axes) == 0 {
		s.t.Errorf("pins axes %v of value %d because of %q", axes, v, why)
	}
}

func (s *strict) PinIndex(v, axis, index int, _ string) {
	if n := s.shape(v)[axis]; index < 0 || index >= n {
		s.t.Errorf("keeps index %d of axis %d of value %d (%d)", index, axis, v, n)
	}
}

func (*strict) Location() string    { return "here" }
func (*strict) Description() string { return "it, here" }

// TestTraits verifies that the traits of operations are consistent with the
// shapes of their cases.
func TestTraits(t *testing.T) {
	for _, o := range op.Table {
		for _, c := range o.Cases {
			t.Run(o.Name+"/"+c.Name, func(t *testing.T) {
				out, err := o.Shape(c.In, c.Attrs)
				if err != nil {
					t.Fatal(err)
				}
				if o.Moves != graph.NoMove && o.FLOPs(c.In, out, c.Attrs) != 0 {
					t.Error("it moves values, and counts operations")
				}
				if o.Conv != nil {
					if o.Class != graph.Contraction {
						t.Error("a convolution that is no contraction")
					}
					sources := o.Conv.Sources(len(c.In))
					for _, i := range sources {
						if c.In[i].NDim() != 5 || !c.In[i][2:].Equal(c.In[sources[0]][2:]) {
							t.Errorf("parts of one field: operand %d, %v, among %v", i, c.In[i], sources)
						}
					}
					if o.Conv.Is(graph.ConvForward) && c.In[len(sources)][0] != out[1] {
						t.Errorf("operand %d, %v, is not a filter of %d channels", len(sources), c.In[len(sources)], out[1])
					}
				}
				if f := o.Filter; f != nil && (c.In[f.Operand][f.Axis] != out[1] || c.In[f.Operand][1-f.Axis] != c.In[f.Source][1]) {
					t.Errorf("filter %v of %v → %v has its channels along other axes", c.In[f.Operand], c.In[f.Source], out)
				}
				if o.TieChannels != nil {
					ties := &strict{t: t, in: c.In, out: out}
					if o.TieChannels(ties, c.In, out, c.Attrs); ties.reads == 0 {
						t.Error("its rule has no constraint on channels")
					}
				}
				if o.PrunedAttrs != nil { // nothing was removed
					whole := graph.PrunedShape{Shape: out, CountBefore: func(_, _, index int) int { return index }}
					if s, err := o.Shape(c.In, o.PrunedAttrs(c.Attrs, whole)); err != nil || !s.Equal(out) {
						t.Errorf("with all channels it gives %v (%v), want %v", s, err, out)
					}
				}
			})
		}
	}
}
