//go:build cgo && linux

package kern

/*
#cgo noescape ens_crps_gauss
#cgo nocallback ens_crps_gauss
#include "kern.h"
*/
import "C"

// GaussianCRPS computes, per element, the CRPS of N(mu, sigma²) at y and its
// derivatives. With z = (y−mu)/sigma and the standard normal density φ:
//
//	crps   = (y−mu)·erf(z/√2) + sigma·(2φ(z) − 1/√π)
//	dmu    = −erf(z/√2)
//	dsigma = 2φ(z) − 1/√π
//	dy     = erf(z/√2)
//
// Outputs that are nil are not computed. An output may alias an input only if it is the
// only output.
//
// Unit: that of y. At sigma = 0 the CRPS is |y−mu|.
// Missing: NaN and sigma < 0 give NaN.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1; the same formula as package
// postproc/dist.
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
