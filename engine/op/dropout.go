package op

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// DropoutParams holds the rate of dropout and its random stream. The forward
// and the backward pass use the same stream, so they drop the same elements.
type DropoutParams struct {
	P      float64 // probability that an element is dropped
	Stream uint64
}

// Key is the key of the random stream of one step. Element i is dropped if
// value i of the stream is below P.
func (d DropoutParams) Key(seed, step uint64) uint64 {
	return rng.Key(seed, rng.Hash("dropout"), d.Stream, step)
}

// KeyPrefix is the key without its last part, the step. Devices append the step
// themselves, so that recorded work can be replayed in every step.
func (d DropoutParams) KeyPrefix(seed uint64) uint64 {
	return rng.Key(seed, rng.Hash("dropout"), d.Stream)
}

// Threshold is P as an integer: an element is dropped if the upper 53 bits of
// its random value are below it. Kernels compare integers, so all backends drop
// the same elements.
func (d DropoutParams) Threshold() uint64 { return uint64(math.Ceil(d.P * 0x1p53)) }

// dropout scales the remaining elements by 1/(1−p), so that the expectation
// does not change. Its gradient is dropout of dy with the same stream.
var dropout = Define(Spec[DropoutParams]{
	Name:   "dropout",
	Doc:    "Each element 0 with probability p, else divided by 1−p; random numbers depend on seed, step and stream only. At inference the identity.",
	Source: "Srivastava et al. 2014, JMLR 15, 1929–1958",
	Random: true,
	Split:  graph.SplitRandom, TieChannels: tieAllAxes[DropoutParams],
	Shape: func(in []Shape, a DropoutParams) (Shape, error) {
		if len(in) != 1 || !(a.P >= 0 && a.P < 1) {
			return nil, shapeError("%d operands and probability %v, want 1 and 0 ≤ p < 1", len(in), a.P)
		}
		return in[0].Clone(), nil
	},
	Infer:   func(_ *Builder, in []Value, _ DropoutParams) Value { return in[0] },
	InPlace: inPlace[DropoutParams](0),
	FLOPs:   func(_ []Shape, out Shape, _ DropoutParams) int64 { return 2 * int64(out.Size()) },
	Ref:     func(c Call, a DropoutParams) { ApplyDropout(a, a.Key(c.Seed, c.Step), c.In[0], c.Out) },
	Cases: []Case[DropoutParams]{
		{Name: "5-D", In: []Shape{{2, 3, 5, 6, 7}}, A: DropoutParams{0.3, 7}},
		{Name: "more channels", In: []Shape{{2, 19, 1, 6, 7}}, A: DropoutParams{0.3, 7}},
	},
})

func init() {
	dropout.SetGrad(func(b *Builder, _ []Value, _, dy Value, a DropoutParams) []Value {
		return []Value{dropout.add(b, a, dy)}
	})
}

// ApplyDropout is the loop of dropout for any element type.
func ApplyDropout[T Elem](a DropoutParams, key uint64, x, out []T) {
	keep := T(1 / (1 - a.P))
	for i, v := range x {
		if rng.Uniform(key, uint64(i)) < a.P {
			out[i] = 0
		} else {
			out[i] = v * keep
		}
	}
}

// Dropout sets each element to 0 with probability p and divides the others by
// 1−p. The choice is a pure function of the seed of the graph, the step and the
// stream number of the call. So runs repeat, and no state is saved. At
// inference Dropout is the identity.
//
// Shape: any.
// Gradient: the same elements of dy are dropped.
// Errors: ErrShape unless 0 ≤ p < 1.
// Source: Srivastava et al. 2014, JMLR 15, 1929–1958.
func Dropout(b *Builder, x Value, p float64) Value {
	if p == 0 {
		return x
	}
	return dropout.add(b, DropoutParams{p, b.NextRandom()}, x)
}

// String prints rate and stream.
func (d DropoutParams) String() string { return fmt.Sprintf("p=%g stream=%d", d.P, d.Stream) }
