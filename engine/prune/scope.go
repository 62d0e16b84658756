package prune

import "fmt"

// Scope is where a sparsity holds.
type Scope string

// The scopes.
const (
	// Global lets the weights of all layers compete.
	Global Scope = "global"
	// Uniform has the same sparsity in each layer.
	Uniform Scope = "uniform"
	// ERK gives a layer the density
	//
	//	eps · (In + Out + kD + kH + kW) / (In · Out · kD · kH · kW)
	//
	// with eps such that all layers together have the density that is wanted. A layer whose
	// density would be more than 1 is dense, and eps is found again for the others.
	//
	// Source: Evci et al. 2020, arXiv:1911.11134 (Erdős–Rényi-kernel), for three dimensions.
	ERK Scope = "erk"
)

// layerDensities are those of layers that together have the density d, by a scope that fixes them.
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
	return nil, fmt.Errorf("prune: scope %q gives layers no sparsity of their own", s)
}

// erk gives eps and the densities of layers.
func erk(layers []Layer, d float64) (eps float64, densities []float64) {
	densities = make([]float64, len(layers))
	dense := make([]bool, len(layers))
	for {
		var all, spent, raw float64 // raw: of layers that are not dense, the weights per eps
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
		again := false
		for i, l := range layers {
			if dense[i] {
				continue
			}
			densities[i] = eps * float64(l.In+l.Out+l.Kernel[0]+l.Kernel[1]+l.Kernel[2]) / float64(l.Size())
			if densities[i] > 1 {
				densities[i], dense[i], again = 1, true, true
			}
		}
		if !again {
			return eps, densities
		}
	}
}
