package prune

import "fmt"

// Scope is the set of weights among which scores are compared.
type Scope string

// The scopes.
const (
	// Global compares the weights of all layers.
	Global Scope = "global"
	// Uniform gives each layer the same sparsity.
	Uniform Scope = "uniform"
	// ERK (Erdős–Rényi kernel) gives a layer the density
	//
	//	eps · (In + Out + kD + kH + kW) / (In · Out · kD · kH · kW)
	//
	// with eps such that all layers together have the target density. A layer whose density would
	// exceed 1 stays dense, and eps is recomputed for the others. Small layers thus keep a
	// larger fraction of their weights.
	//
	// Source: Evci et al. 2020, arXiv:1911.11134, extended to three dimensions.
	ERK Scope = "erk"
)

// layerDensities are the densities of layers that together have the density d (1 − sparsity).
//
// Errors: a scope without densities by layer.
func (s Scope) layerDensities(layers []Layer, d float64) ([]float64, error) {
	out := make([]float64, len(layers))
	switch s {
	case Uniform:
		for i := range out {
			out[i] = d
		}
		return out, nil
	case ERK:
		_, out := erk(layers, d)
		return out, nil
	}
	return nil, fmt.Errorf("prune: scope %q has no sparsity per layer", s)
}

// erk computes eps and the densities of ERK. Each iteration fixes at least one more layer as dense,
// so it ends.
func erk(layers []Layer, d float64) (eps float64, densities []float64) {
	densities = make([]float64, len(layers))
	dense := make([]bool, len(layers))
	for {
		var all, spent, raw float64 // all weights; weights of dense layers; weights of the others per eps
		for i, l := range layers {
			all += float64(l.Size())
			if dense[i] {
				spent += float64(l.Size())
			} else {
				raw += float64(l.In + l.Out + l.Kernel[0] + l.Kernel[1] + l.Kernel[2])
			}
		}
		if raw == 0 {
			return eps, densities
		}
		eps = (d*all - spent) / raw
		repeat := false
		for i, l := range layers {
			if dense[i] {
				continue
			}
			densities[i] = eps * float64(l.In+l.Out+l.Kernel[0]+l.Kernel[1]+l.Kernel[2]) / float64(l.Size())
			if densities[i] > 1 {
				densities[i], dense[i], repeat = 1, true, true
			}
		}
		if !repeat {
			return eps, densities
		}
	}
}
