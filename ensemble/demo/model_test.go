package demo

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/allocs"
)

// frictionless is the atmosphere without forcing, friction, diffusion or mountains.
func frictionless() *model {
	return newModel(physics{jetWidth: 20, heightDegree: 20}, &planet{
		land: make([]float64, npoint), height: make([]float64, npoint), observed: make([]float64, npoint)})
}

// stormy gives a state of full amplitude, 20 m s-1 on all scales.
func stormy(m *model, seed uint64) (q, psi state) {
	noise(&psi, stream(seed, forSeeds, 0), 8, 0.6)
	scaleTo(&psi, 20)
	m.vorticity(&q, &psi)
	return q, psi
}

// inner is the global mean of the product of two fields.
func inner(a, b *spectrum) float64 {
	var sum float64
	for k := range a {
		d := real(a[k])*real(b[k]) + imag(a[k])*imag(b[k])
		if k < sphere.off[1] {
			d /= 2
		}
		sum += d
	}
	return sum
}

func TestStreamfunctionInvertsVorticity(t *testing.T) {
	m := frictionless()
	q, psi := stormy(m, 1)
	var back state
	m.streamfunction(&back, &q)
	for l := range psi {
		for k := range psi[l] {
			if d := back[l][k] - psi[l][k]; math.Hypot(real(d), imag(d)) > 1e-9*windNorm(&psi)*earthRadius {
				t.Fatalf("level %d coefficient %d: %v, want %v", l, k, back[l][k], psi[l][k])
			}
		}
	}
}

// The advection conserves, as the exact equations do: energy ∫ψJ(ψ,q) = 0 level by
// level, by construction of the flux form; potential enstrophy ∫(q+f)J(ψ,q) = 0 since the
// grid integrates cubic products exactly; and circulation ∫J = 0.
func TestAdvectionConserves(t *testing.T) {
	m := frictionless()
	q, psi := stormy(m, 2)
	g := m.integrator()
	var dq state
	g.rate(&dq, &q, 0)
	for l := range dq {
		size := math.Sqrt(meanSquare(&dq[l]))
		energy := inner(&psi[l], &dq[l]) / (size * math.Sqrt(meanSquare(&psi[l])))
		total := q[l]
		total[1] += complex(2*omega/math.Sqrt(1.5), 0) // f = 2Ωμ
		enstrophy := inner(&total, &dq[l]) / (size * math.Sqrt(meanSquare(&total)))
		// Rounding of some 10⁴ products of order one.
		if math.Abs(energy) > 1e-13 || math.Abs(enstrophy) > 1e-13 || dq[l][0] != 0 {
			t.Errorf("level %d: relative change of energy %g, enstrophy %g; circulation %v", l, energy, enstrophy, dq[l][0])
		}
	}
}

// One Jacobian by hand: a zonal flow −aUμ rotating a wave of order 3, whose
// vorticity moves with angular speed U/a and feels 2(Ω+U/a)μ as planetary vorticity.
func TestAdvectionBySolidRotation(t *testing.T) {
	m := frictionless()
	const wind = 20.0
	var psi, q, dq state
	k := sphere.off[3] + 2 // order 3, degree 5
	for l := range psi {
		psi[l][1] = complex(-earthRadius*wind/math.Sqrt(1.5), 0)
		psi[l][k] = complex(2e6, 1e6)
	}
	m.vorticity(&q, &psi)
	m.integrator().rate(&dq, &q, 0)
	// ∂ζ/∂t = −(U/a)∂ζ/∂λ − 2(Ω+U/a)/a² ∂ψ/∂λ
	for l := range dq {
		want := -complex(0, 3*wind/earthRadius)*q[l][k] - complex(0, 3*2*(omega+wind/earthRadius)/(earthRadius*earthRadius))*psi[l][k]
		if d := dq[l][k] - want; math.Hypot(real(d), imag(d)) > 1e-10*math.Hypot(real(want), imag(want)) {
			t.Errorf("level %d: tendency %v, want %v", l, dq[l][k], want)
		}
	}
}

// Ten days without forcing: energy and enstrophy of the whole column stay, up to
// the error of the time step.
func TestFrictionlessRunKeepsEnergy(t *testing.T) {
	m := frictionless()
	q, psi := stormy(m, 3)
	scaleTo(&psi, 8) // without diffusion all scales stay: half amplitude for the same step
	m.vorticity(&q, &psi)
	energy := func() (e, z float64) {
		m.streamfunction(&psi, &q)
		for l := range q {
			e -= inner(&psi[l], &q[l]) / 2
			total := q[l]
			total[1] += complex(2*omega/math.Sqrt(1.5), 0)
			z += inner(&total, &total) / 2
		}
		return e, z
	}
	e0, z0 := energy()
	m.integrator().run(&q, 0, 10*stepsPerDay)
	e1, z1 := energy()
	t.Logf("relative change in ten days: energy %.2e, enstrophy %.2e", e1/e0-1, z1/z0-1)
	if math.Abs(e1/e0-1) > 2e-3 || math.Abs(z1/z0-1) > 2e-3 {
		t.Errorf("energy changed by %g, enstrophy by %g", e1/e0-1, z1/z0-1)
	}
}

// Ekman drag alone takes energy from the lowest level, at the rate given.
func TestDragTakesEnergy(t *testing.T) {
	p := physics{jetWidth: 20, heightDegree: 20, dragSea: 0.5}
	m := newModel(p, &planet{land: make([]float64, npoint), height: make([]float64, npoint), observed: make([]float64, npoint)})
	q, psi := stormy(m, 4)
	var dq, free state
	m.integrator().rate(&dq, &q, 0)
	frictionless().integrator().rate(&free, &q, 0)
	for k := range dq[2] {
		n := float64(sphere.deg[k])
		vorticity := psi[2][k] * complex(-n*(n+1)/(earthRadius*earthRadius), 0)
		want := -vorticity * complex(0.5/day, 0)
		got := dq[2][k] - free[2][k]
		if d := got - want; math.Hypot(real(d), imag(d)) > 1e-9*math.Sqrt(meanSquare(&q[2]))/day {
			t.Fatalf("coefficient %d: drag %v, want %v", k, got, want)
		}
	}
}

// A step allocates nothing.
func TestRunAllocatesNothing(t *testing.T) {
	m := newModel(natural, newPlanet())
	q, _ := stormy(m, 5)
	g := m.integrator()
	if n := allocs.PerRun(3, func() { g.run(&q, 0, 1) }); n > 0 {
		t.Errorf("%g allocations in a step", n)
	}
}

func BenchmarkStep(b *testing.B) {
	m := newModel(natural, newPlanet())
	q, psi := stormy(m, 6)
	scaleTo(&psi, 10)
	m.vorticity(&q, &psi)
	g := m.integrator()
	for b.Loop() {
		g.run(&q, 0, 1)
	}
}
