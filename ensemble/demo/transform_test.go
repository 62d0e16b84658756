package demo

import (
	"math"
	"math/rand/v2"
	"testing"
)

// randomSpectrum has every coefficient of order one.
func randomSpectrum(r *rand.Rand) *spectrum {
	s := new(spectrum)
	for k := range s {
		s[k] = complex(r.NormFloat64(), 0)
		if k >= sphere.off[1] {
			s[k] += complex(0, r.NormFloat64())
		}
	}
	return s
}

// The Gaussian grid integrates products of any two functions of one order exactly.
func TestLegendreFunctionsAreOrthonormal(t *testing.T) {
	for m := range trunc + 1 {
		for a := sphere.off[m]; a < sphere.off[m+1]; a++ {
			for b := sphere.off[m]; b <= a; b++ {
				var sum float64
				parity := 1.0
				if (sphere.deg[a]+sphere.deg[b])%2 == 1 {
					parity = -1
				}
				for j := range npair {
					sum += sphere.w[j] * sphere.p[j][a] * sphere.p[j][b] * (1 + parity)
				}
				want := 0.0
				if a == b {
					want = 1
				}
				if math.Abs(sum-want) > 1e-13 {
					t.Fatalf("∫P(%d,%d)P(%d,%d) = %g, want %g", m, sphere.deg[a], m, sphere.deg[b], sum, want)
				}
			}
		}
	}
}

// H against a centred difference of the closed form P₂₁ ∝ μ√(1−μ²) and P₁₀ ∝ μ.
func TestLegendreDerivative(t *testing.T) {
	for j := range npair {
		mu, c2 := sphere.mu[j], sphere.cos2[j]
		p10, h10 := math.Sqrt(1.5)*mu, c2*math.Sqrt(1.5)
		n21 := math.Sqrt(15.0 / 4)
		p21, h21 := n21*mu*math.Sqrt(c2), c2*n21*(math.Sqrt(c2)-mu*mu/math.Sqrt(c2))
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"P10", sphere.p[j][1], p10}, {"H10", sphere.h[j][1], h10},
			{"P21", sphere.p[j][sphere.off[1]+1], p21}, {"H21", sphere.h[j][sphere.off[1]+1], h21},
		} {
			if math.Abs(c.got-c.want) > 1e-13 {
				t.Errorf("row %d: %s = %g, want %g", j, c.name, c.got, c.want)
			}
		}
	}
}

func TestTransformRoundTrip(t *testing.T) {
	tr := newTransform()
	r := rand.New(rand.NewPCG(1, 1))
	grid := make([]float64, npoint)
	for range 3 { // scratch of one pass must not leak into the next
		s := randomSpectrum(r)
		tr.toGrid(grid, s)
		var back spectrum
		tr.toSpectrum(&back, grid)
		for k := range s {
			if d := s[k] - back[k]; math.Hypot(real(d), imag(d)) > 1e-12 {
				t.Fatalf("coefficient %d: %v came back as %v", k, s[k], back[k])
			}
		}
		for i := range grid { // what the truncation cannot hold must not come back later
			grid[i] = r.NormFloat64()
		}
		tr.toSpectrum(&back, grid)
	}
}

// Parseval: the mean square of a field from its grid values and coefficients.
func TestMeanSquare(t *testing.T) {
	tr := newTransform()
	s := randomSpectrum(rand.New(rand.NewPCG(2, 1)))
	grid := make([]float64, npoint)
	tr.toGrid(grid, s)
	var sum float64
	for k, v := range grid {
		sum += sphere.w[k/nlon] / 2 / nlon * v * v
	}
	if got := meanSquare(s); math.Abs(got/sum-1) > 1e-13 {
		t.Errorf("mean square %g, on the grid %g", got, sum)
	}
}

// A wind of solid rotation is u = U cosφ; another of order 1 has known v.
func TestWind(t *testing.T) {
	tr := newTransform()
	u, v := make([]float64, npoint), make([]float64, npoint)
	var s spectrum
	s[1] = complex(-earthRadius*30/math.Sqrt(1.5), 0) // ψ = −aUμ
	s[sphere.off[1]] = complex(earthRadius*5, 0)      // + 2·5a·P₁₁ cosλ
	tr.wind(u, v, &s)
	p11 := math.Sqrt(3.0 / 4)
	for j := range nlat {
		for i := range nlon {
			sin, cos := math.Sincos(longitude(i) * math.Pi / 180)
			mu := sphere.mu[j]
			wantU := 30*math.Sqrt(1-mu*mu) + 10*p11*mu*cos
			wantV := -10 * p11 * sin
			if math.Abs(u[j*nlon+i]-wantU) > 1e-11 || math.Abs(v[j*nlon+i]-wantV) > 1e-11 {
				t.Fatalf("row %d column %d: wind %g, %g, want %g, %g", j, i, u[j*nlon+i], v[j*nlon+i], wantU, wantV)
			}
		}
	}
}

// Linear balance against its definition: ∇²Φ = ∇·(f∇ψ), the right side as
// f∇²ψ + ∇f·∇ψ on the grid. Coefficients of the last degree are left out: the
// grid's product reaches beyond the truncation.
func TestBalance(t *testing.T) {
	tr := newTransform()
	psi := randomSpectrum(rand.New(rand.NewPCG(3, 1)))
	psi[0] = 0
	var phi, lap, want spectrum
	balance(&phi, psi)
	for k := range lap {
		n := float64(sphere.deg[k])
		lap[k] = psi[k] * complex(-n*(n+1)/(earthRadius*earthRadius), 0)
	}
	vo, u, v := make([]float64, npoint), make([]float64, npoint), make([]float64, npoint)
	tr.toGrid(vo, &lap)
	tr.wind(u, v, psi)
	for k := range vo {
		mu := sphere.mu[k/nlon]
		vo[k] = 2*omega*mu*vo[k] - 2*omega*math.Sqrt(1-mu*mu)/earthRadius*u[k]
	}
	tr.toSpectrum(&want, vo)
	for k := range phi {
		n := float64(sphere.deg[k])
		if n == 0 {
			continue
		}
		got := phi[k] * complex(-n*(n+1)/(earthRadius*earthRadius), 0)
		if d := got - want[k]; math.Hypot(real(d), imag(d)) > 1e-12*2*omega*trunc*trunc/(earthRadius*earthRadius)*10 {
			t.Fatalf("coefficient %d of degree %v: %v, want %v", k, n, got, want[k])
		}
	}
}
