package graphnet

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/ensemble-weather/ensemble/engine/cost"
)

// edge leads from a vertex to another. The weight is 1 over the number of all edges into the target, of which messages are the mean.
type edge struct {
	source, target, position int
	weight                   float64
}

// The types of edges.
const (
	data = iota
	dataReversed
	control
	controlReversed
	flows
)

// positions is the number of positions that gates distinguish; operands from there on share the last gate.
const positions = 8

// Step is a step on a setup, as the network reads it.
type Step struct {
	Kinds []string  // of each operation
	Units []float64 // seconds; the network predicts ratios of times to them
	Times []float64 // measured seconds; empty: unknown

	inputs *mat.Dense // [operations inputs]
	edges  [flows][]edge
	shares [flows]*mat.Dense // [operations 1]: edges of the type over all edges into a vertex
}

// The inputs of an operation: shares of the features in their sum, and logarithms of the sum, of the bytes moved and of those of the step; of
// a machine, logarithms of threads and of ratios of its rates.
const (
	workInputs    = cost.FeatureCount + 3
	machineInputs = 6
)

// NewStep returns a step on a setup without times, with the sum of its features as units.
//
//	Σᵢ xᵢ, the time at the measured rates
func NewStep(s cost.Setup, ops []cost.Work, values int64, producers cost.Producers) *Step {
	out := &Step{inputs: mat.NewDense(len(ops), workInputs+machineInputs, nil)}
	for i, w := range ops {
		x := s.Features(w.Amounts, values)
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		out.Kinds = append(out.Kinds, w.Kind)
		out.Units = append(out.Units, sum)
		row := out.inputs.RawRowView(i)
		for k, v := range x {
			row[k] = v / sum
		}
		at := len(x)
		row[at], row[at+1], row[at+2] = scaled(sum, 1e-4), scaled(w.Bytes(), 1e6), scaled(float64(values), 3e7)
		r := s.Rates
		for k, v := range [machineInputs]float64{float64(r.Threads), r.Minimal / r.Products, 4 * r.Elementwise / r.Products, 4 * r.Elementwise / r.L2, 4 * r.L3 / r.L2, 3 * r.DRAM / r.L3} {
			row[workInputs+k] = math.Log2(v)
		}
	}
	out.connect(producers)
	return out
}

// scaled is the decimal logarithm of a number in a typical one, halved: of order 1.
func scaled(v, typical float64) float64 { return math.Log10(max(v, 1e-12)/typical) / 2 }

// connect makes the edges.
func (s *Step) connect(producers cost.Producers) {
	add := func(flow, source, target, position int) {
		s.edges[flow] = append(s.edges[flow], edge{source: source, target: target, position: min(position, positions-1)})
		s.edges[flow+1] = append(s.edges[flow+1], edge{source: target, target: source, position: min(position, positions-1)})
	}
	for i, from := range producers {
		for p, k := range from {
			if k >= 0 {
				add(data, k, i, p)
			}
		}
	}
	n := len(s.Kinds)
	for i := 1; i < n; i++ {
		add(control, i-1, i, 0)
	}
	into := make([]float64, n)
	for _, some := range s.edges {
		for _, e := range some {
			into[e.target]++
		}
	}
	for f, some := range s.edges {
		s.shares[f] = mat.NewDense(n, 1, nil)
		for k, e := range some {
			some[k].weight = 1 / into[e.target]
			s.shares[f].RawMatrix().Data[e.target] += 1 / into[e.target]
		}
	}
}

// StepOf returns step k of races on a setup, by its place, with its times. The step must have run there.
func StepOf(r *cost.Races, k, setup int) *Step {
	race := r.Steps[k]
	ops := make([]cost.Work, len(race.Ops))
	times := make([]float64, len(race.Ops))
	for i, at := range race.Ops {
		ops[i], times[i] = r.Ops[at].Work, r.Ops[at].Times[setup]
	}
	s := NewStep(r.Setups[setup], ops, r.Ops[race.Ops[0]].Values, race.Producers)
	s.Times = times
	return s
}
