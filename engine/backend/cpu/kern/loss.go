//go:build cgo && linux

package kern

/*
#cgo noescape ens_crps_gauss
#cgo nocallback ens_crps_gauss
#cgo noescape ens_adam
#cgo nocallback ens_adam
#include "kern.h"
*/
import "C"

// GaussianCRPS computes, per element, the CRPS of N(mu, sigma²) against y and
// its gradients, with z = (y−mu)/sigma:
//
//	crps = (y−mu)·erf(z/√2) + sigma·(2φ(z) − 1/√π)
//	dmu    = −erf(z/√2)      dsigma = 2φ(z) − 1/√π      dy = erf(z/√2)
//
// Outputs that are nil are left out; an output may alias an input only if no
// other output is asked for. Missing: NaN and sigma < 0 give NaN; sigma = 0 is
// a point mass, with crps = |y−mu|.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1; the formula of postproc/dist.
func (p *Pool) GaussianCRPS(crps, dmu, dsigma, dy, mu, sigma, y []float32) {
	want("sigma", len(sigma), len(mu))
	want("y", len(y), len(mu))
	for _, out := range [...][]float32{crps, dmu, dsigma, dy} {
		if out != nil {
			want("output", len(out), len(mu))
		}
	}
	C.ens_crps_gauss(p.ptr(), f32(crps), f32(dmu), f32(dsigma), f32(dy), f32(mu), f32(sigma), f32(y), C.long(len(mu)))
}

// AdamStep holds the constants of one sweep of Adam.
type AdamStep struct {
	LR, Beta1, Beta2, Eps float32
	Decay                 float32 // weight decay
	Coupled               bool    // decay enters the gradient (Adam); otherwise AdamW
	GradScale             float32 // multiplies the gradient first: the factor of clipping; 0 means 1
	Correct1, Correct2    float32 // 1−Beta1ᵗ and 1−Beta2ᵗ, t from 1
}

// Adam sweeps once over a flat arena, with g′ = GradScale·g (+ Decay·w if coupled):
//
//	m = β₁m + (1−β₁)g′      v = β₂v + (1−β₂)g′²
//	w = w − LR·Decay·w (unless coupled) − LR·(m/Correct1)/(√(v/Correct2) + Eps)
//
// Source: Kingma & Ba 2015, arXiv:1412.6980; Loshchilov & Hutter 2019, arXiv:1711.05101.
func (p *Pool) Adam(w, m, v, g []float32, s AdamStep) {
	want("m", len(m), len(w))
	want("v", len(v), len(w))
	want("g", len(g), len(w))
	if s.GradScale == 0 {
		s.GradScale = 1
	}
	coupled := C.int(0)
	if s.Coupled {
		coupled = 1
	}
	C.ens_adam(p.ptr(), f32(w), f32(m), f32(v), f32(g), C.float(s.LR), C.float(s.Beta1), C.float(s.Beta2), C.float(s.Eps),
		C.float(s.Decay), C.float(s.Correct1), C.float(s.Correct2), C.float(s.GradScale), coupled, C.long(len(w)))
}
