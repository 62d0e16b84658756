package graphnet

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/ensemble-weather/ensemble/engine/cost"
)

// randomStep is a step of operations of some kinds whose operands are results before them, with inputs and times from a seed.
func randomStep(seed uint64, kinds []string, operations int) *Step {
	random := rand.New(rand.NewPCG(seed, 7))
	s := &Step{inputs: mat.NewDense(operations, workInputs+machineInputs, nil)}
	for i := range s.inputs.RawMatrix().Data {
		s.inputs.RawMatrix().Data[i] = random.NormFloat64()
	}
	producers := make(cost.Producers, operations)
	for i := range operations {
		s.Kinds = append(s.Kinds, kinds[random.IntN(len(kinds))])
		s.Units = append(s.Units, math.Exp(random.NormFloat64()))
		s.Times = append(s.Times, math.Exp(random.NormFloat64()))
		for range i % 3 {
			producers[i] = append(producers[i], random.IntN(i+1)-1)
		}
	}
	s.connect(producers)
	return s
}

// randomised returns a network whose weights are all random.
func randomised(size Size, kinds []string) *Network {
	n := NewNetwork(size, kinds, 1)
	random := rand.New(rand.NewPCG(5, 6))
	for _, w := range n.weights() {
		for i := range w.x.RawMatrix().Data {
			w.x.RawMatrix().Data[i] = random.NormFloat64() / 2
		}
	}
	return n
}

// TestGradients: the gradient of every weight agrees with central differences.
func TestGradients(t *testing.T) {
	kinds := []string{"a", "b", "c"}
	s := randomStep(1, append(kinds, "unknown"), 9)
	for _, size := range []Size{{Hidden: 4, Rounds: 0}, {Hidden: 4, Rounds: 2, Machine: true}} {
		n := randomised(size, kinds)
		n.loss(s)
		weights := n.weights()
		gradients := make([][]float64, len(weights))
		for i, w := range weights {
			gradients[i] = slices.Clone(w.d.RawMatrix().Data)
		}
		checked := 0
		for i, w := range weights {
			x := w.x.RawMatrix().Data
			for j, was := range x {
				const step = 1e-5
				x[j] = was + step
				above := n.loss(s)
				x[j] = was - step
				below := n.loss(s)
				x[j] = was
				want := (above - below) / (2 * step)
				if math.Abs(gradients[i][j]-want) > 1e-8+1e-6*math.Abs(want) {
					t.Errorf("%v: gradient of weight %d of part %d is %g, by differences %g", size, j, i, gradients[i][j], want)
				}
				if want != 0 {
					checked++
				}
			}
		}
		if checked < 50 {
			t.Errorf("%v: only %d gradients are not 0", size, checked)
		}
	}
}

// TestMessages: the worked case of two messages, without and with gates.
func TestMessages(t *testing.T) {
	n := NewNetwork(Size{Hidden: 2, Rounds: 1}, nil, 1)
	for f := range flows { // W = ((0, 1), (2, 0)), which acts on rows as its transpose; b = (1, −1)
		n.message[f] = constant(mat.NewDense(2, 2, []float64{0, 2, 1, 0}))
		n.messageBias[f] = constant(mat.NewDense(1, 2, []float64{1, -1}))
	}
	h := constant(mat.NewDense(3, 2, []float64{1, 2, 3, 0, 0, 0}))
	s := &Step{}
	for f := range flows {
		s.shares[f] = mat.NewDense(3, 1, nil)
	}
	mean := func(logits [2]float64, sources ...int) []float64 {
		s.edges[data] = nil
		for _, k := range sources {
			s.edges[data] = append(s.edges[data], edge{source: k, target: 2, weight: 1 / float64(len(sources))})
		}
		s.shares[data].Set(2, 0, 1)
		n.gate.x.Zero()
		n.gateBias.x.SetRow(0, logits[:])
		var t tape
		gates := t.sigmoid(t.sum(t.product(constant(positionCodes()), n.gate), n.gateBias), 2)
		return n.messages(&t, h, gates, s).x.RawRowView(2)
	}
	for _, c := range []struct {
		logits  [2]float64
		sources []int
		want    [2]float64
	}{{[2]float64{}, []int{0}, [2]float64{3, 1}}, {[2]float64{}, []int{1}, [2]float64{1, 5}}, {[2]float64{}, []int{0, 1}, [2]float64{2, 3}},
		{[2]float64{1, -1}, []int{0}, [2]float64{2.075766, 1.924234}}} {
		got := mean(c.logits, c.sources...)
		for j, v := range got {
			if math.Abs(v-c.want[j]) > 1e-6 {
				t.Errorf("gates %v, messages of %v: %v, want %v", c.logits, c.sources, got, c.want)
				break
			}
		}
	}
}

// TestPositionsMatter: if the operands of an operation change places, its time changes with gates that depend on the position, and does not
// with gates of 1.
func TestPositionsMatter(t *testing.T) {
	kinds := []string{"a", "b"}
	n := randomised(Size{Hidden: 6, Rounds: 2}, kinds)
	swapped := func() (one, other float64) {
		s := randomStep(3, kinds, 3)
		for _, p := range []cost.Producers{{nil, nil, {0, 1}}, {nil, nil, {1, 0}}} {
			s.edges = [flows][]edge{}
			s.connect(p)
			one, other = other, n.Predict(s)[2]
		}
		return one, other
	}
	if one, other := swapped(); math.Abs(one/other-1) < 1e-4 {
		t.Errorf("with gates the times are %g and %g", one, other)
	}
	n.gate.x.Zero()
	n.gateBias.x.Zero()
	if one, other := swapped(); math.Abs(one/other-1) > 1e-12 {
		t.Errorf("without gates the times are %g and %g", one, other)
	}
}

// TestRenumbering: times follow their operations when those are numbered in another way.
func TestRenumbering(t *testing.T) {
	kinds := []string{"a", "b", "c"}
	n := randomised(Size{Hidden: 6, Rounds: 3, Machine: true}, kinds)
	s := randomStep(4, kinds, 12)
	to := rand.New(rand.NewPCG(1, 1)).Perm(12) // new number of each operation
	p := &Step{Kinds: make([]string, 12), Units: make([]float64, 12), inputs: mat.NewDense(12, workInputs+machineInputs, nil)}
	for i, k := range to {
		p.Kinds[k], p.Units[k] = s.Kinds[i], s.Units[i]
		p.inputs.SetRow(k, s.inputs.RawRowView(i))
	}
	for f := range flows {
		p.shares[f] = mat.NewDense(12, 1, nil)
		for i, k := range to {
			p.shares[f].Set(k, 0, s.shares[f].At(i, 0))
		}
		for _, e := range s.edges[f] {
			p.edges[f] = append(p.edges[f], edge{to[e.source], to[e.target], e.position, e.weight})
		}
	}
	want, got := n.Predict(s), n.Predict(p)
	for i, k := range to {
		if math.Abs(got[k]/want[i]-1) > 1e-12 || !(want[i] > 0) {
			t.Errorf("operation %d: %g, as number %d %g", i, want[i], k, got[k])
		}
	}
}

// TestUntrained: a new network predicts the units.
func TestUntrained(t *testing.T) {
	s := randomStep(2, []string{"a"}, 5)
	if got := NewNetwork(Size{Hidden: 4, Rounds: 2}, []string{"a"}, 1).Predict(s); !slices.Equal(got, s.Units) {
		t.Errorf("%v, want %v", got, s.Units)
	}
}

// afterCopy are steps in which an operation takes three times as long after one of kind "copy" as after another, which no operation shows by
// itself.
func afterCopy(seed uint64, n int) (all []*Step) {
	for k := range n {
		s := randomStep(seed+uint64(k), []string{"add", "copy", "scale"}, 16)
		s.edges = [flows][]edge{}
		producers := make(cost.Producers, 16)
		for i := range producers {
			s.Times[i] = s.Units[i]
			if i > 0 {
				producers[i] = []int{int(seed+uint64(7*i+k)) % i}
				if s.Kinds[producers[i][0]] == "copy" {
					s.Times[i] *= 3
				}
			}
		}
		s.connect(producers)
		all = append(all, s)
	}
	return all
}

// TestLearnsNeighbours: with messages the network learns what the producer of an operand does to the time; without it cannot. The steps of
// the test are others than those of the training.
func TestLearnsNeighbours(t *testing.T) {
	worst := func(rounds int) (sum float64) {
		n := Train(afterCopy(100, 24), Training{Size: Size{Hidden: 12, Rounds: rounds}, Epochs: 40, Rate: 0.01, Seed: 1})
		count := 0.0
		for _, s := range afterCopy(900, 6) {
			for i, p := range n.Predict(s) {
				sum += math.Abs(math.Log(p / s.Times[i]))
				count++
			}
		}
		return sum / count
	}
	if with, without := worst(1), worst(0); with > 0.1 || without < 0.3 {
		t.Errorf("mean error of logarithms %.3f with a round of messages, %.3f without", with, without)
	}
}
