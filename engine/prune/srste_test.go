package prune

import "testing"

// TestSRSTE follows three steps worked by hand, of SGD with the rate 0.1 and the decay 0.5, so that a masked weight is
// multiplied by 0.95 in each step. The gradient is that of the masked network; the third mask takes the weight that the
// second gradient moved.
func TestSRSTE(t *testing.T) {
	p := made(t, []Layer{row(4)}, 4, Options{Method: SRSTE, Structure: structures["2:4"], Scope: Global, Target: 0.5, To: 10, Every: 1, MaskedDecay: 0.5})
	copy(p.mask, []bool{true, false, false, true})
	w := []float32{0.9, -0.2, 0.05, -0.6}
	p.MaskWeights(of(w), of(nil))
	for step, c := range []struct{ g, w, latent [4]float64 }{
		{[4]float64{0.5, 0.4, -0.3, 0.2}, [4]float64{0.85, 0, 0, -0.62}, [4]float64{0, -0.23, 0.0775, 0}},
		{[4]float64{0, 4, 0, -4}, [4]float64{0.85, 0, 0, -0.22}, [4]float64{0, -0.6185, 0.073625, 0}},
		{[4]float64{}, [4]float64{0.85, -0.587575, 0, 0}, [4]float64{0, 0, 0.06994375, -0.22}},
	} {
		p.UnmaskWeights(of(w))
		if _, err := p.Step(step, 0.1, of(w), nil); err != nil {
			t.Fatal(err)
		}
		for i := range w {
			w[i] -= float32(0.1 * c.g[i])
		}
		p.MaskWeights(of(w), of(nil))
		for i, v := range w {
			near(t, "weight", float64(v), c.w[i], 1e-7)
			if !p.Mask()[i] {
				near(t, "latent value", float64(p.latent[i]), c.latent[i], 1e-7)
			}
		}
	}
}
