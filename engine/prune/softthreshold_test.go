package prune

import (
	"math"
	"testing"
)

// pairs are two layers with two weights each.
func pairs() []Layer {
	a, b := row(2), row(2)
	b.Name, b.Param, b.Offset = "second", "second.weight", 2
	return []Layer{a, b}
}

// TestSoftThreshold follows two steps worked by hand, of SGD with the rate 0.1. The first removes the smallest weight, 0.2,
// which is the threshold of both layers. The gradient of the thresholds then has the signs − and +, so that the first step of
// Adam changes the scales to 0.1 and −0.1: the removed weight has the score 0.2·e^0.1, and the first layer the threshold
// 0.2·e^0.2.
func TestSoftThreshold(t *testing.T) {
	p := made(t, pairs(), 4, Options{Method: SoftThreshold, Structure: structures["element"], Scope: Global, Initial: 0.25, Target: 0.5, To: 10, Every: 1})
	w := []float32{1, -0.5, 0.8, 0.2}
	p.MaskWeights(of(w), of(nil))
	raised := 0.2 * math.Exp(0.2)
	for step, c := range []struct {
		g   whole
		w   [4]float64
		tau [2]float64
	}{
		{whole{0, 0, 0, 0}, [4]float64{0.8, -0.3, 0.6, 0}, [2]float64{0.2, 0.2}},
		{whole{0.5, 0.1, -2, 7}, [4]float64{0.95 - raised, -0.51 + raised, 0.8, 0}, [2]float64{raised, 0.2}},
	} {
		p.UnmaskWeights(of(w))
		if _, err := p.Step(step, 0.1, of(w), c.g); err != nil {
			t.Fatal(err)
		}
		for i, k := range p.FixedMask() {
			if w[i] -= 0.1 * c.g[i]; !k {
				w[i] = 0
			}
		}
		p.MaskWeights(of(w), of(nil))
		for i, v := range w {
			near(t, "weight", float64(v), c.w[i], 1e-6)
		}
		for i, want := range c.tau {
			near(t, "threshold", float64(p.soft.layers[i].tau), want, 1e-7)
		}
	}
}

// TestSoftThresholdOfBlocks: of blocks of two weights the one of mean 0.5 is removed, and that of mean 2 is shrunk by the
// factor 1 − 0.5/2. The gradient of its threshold is −(1·3 + 2·1)/2. At the end the shrunk weights remain.
func TestSoftThresholdOfBlocks(t *testing.T) {
	l := Layer{Name: "pair", Param: "pair.weight", Out: 2, In: 2, Kernel: [3]int{1, 1, 1}}
	p := made(t, []Layer{l}, 4, Options{Method: SoftThreshold, Structure: Structure{Pattern: Blocks, Block: Block{2, 1}}, Scope: Global, Initial: 0.5, Target: 0.6, To: 2, Every: 2})
	w := []float32{3, 0.5, 1, -0.5} // [outputs, inputs]: blocks are columns
	p.MaskWeights(of(w), of(nil))
	for step, g := range []whole{{0, 0, 0, 0}, {1, 9, 2, 9}, {0, 0, 0, 0}} {
		p.UnmaskWeights(of(w))
		if _, err := p.Step(step, 0.1, of(w), g); err != nil {
			t.Fatal(err)
		}
		if step == 1 {
			near(t, "gradient of the threshold", float64(p.scores[0]+p.scores[1]+p.scores[2]+p.scores[3]), -2.5, 1e-6)
		}
		p.MaskWeights(of(w), of(nil))
		for i, want := range []float64{2.25, 0, 0.75, 0} {
			if p.Mask()[i] != (want > 0) {
				t.Errorf("step %d: the mask of weight %d is %v", step, i, p.Mask()[i])
			}
			if p.Mask()[i] { // the optimiser holds the others
				near(t, "weight", float64(w[i]), want, 1e-6)
			}
		}
	}
	if !p.IsFinal() || p.latent != nil {
		t.Error("latent values remain")
	}
}
