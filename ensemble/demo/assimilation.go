package demo

import "time"

// Parameters of assimilation and breeding; docs/decisions/0003-demo-atmosphere.md.
const (
	cycleLength   = 6 * time.Hour
	stepsPerCycle = stepsPerDay / 4

	spinUpDays             = 90 // of the nature run from noise, before the assimilation
	assimilationSpinUpDays = 30 // of the assimilation, before the first initialisation time
	gapSpinUpDays          = 15 // of both, after a gap in the initialisation times
	assimilationGain       = 0.5
	observationError       = 2.5 // m s-1, wind error of one set of observations
	obsPeak                = 13  // degree where the energy of observation error peaks
	breedingDays           = 1.5
	bredVectors            = 4
	seedPeak               = 11   // degree where the energy of random perturbations peaks
	bredShare              = 0.85 // fraction of bred vectors in a perturbation; the rest is random
	initialNorm            = 1.6  // m s-1, wind norm of a member's perturbation
)

// natureRun integrates the nature run in steps of one assimilation cycle.
type natureRun struct {
	g    *integrator
	q    state
	time float64 // days since the start of the year of the first initialisation time
}

// newNatureRun starts from the equilibrium with small noise, spins up, and ends
// assimilationSpinUpDays before t0. The noise of 1 m s-1 breaks the zonal symmetry of the
// equilibrium; after spinUpDays the state is one of the model's climate, whatever the noise was.
//
// The thicknesses of the equilibrium give ψ₁ = lower and ψ₀ = upper + lower, with ψ₂ = 0.
func newNatureRun(m *model, seed uint64, t0 float64) *natureRun {
	tr := &natureRun{g: m.integrator(), time: t0 - assimilationSpinUpDays - spinUpDays}
	var psi state
	noise(&psi, stream(seed, forSpinUp, 0), seedPeak, 0.5)
	c, s := phase(tr.time)
	for k := range ncoef {
		at := func(h *harmonic) complex128 { return h.mean[k] + complex(c, 0)*h.cos[k] + complex(s, 0)*h.sin[k] }
		upper, lower := at(&m.upper), at(&m.lower)
		psi[0][k] += upper + lower
		psi[1][k] += lower
	}
	m.vorticity(&tr.q, &psi)
	tr.g.run(&tr.q, tr.time, spinUpDays*stepsPerDay)
	tr.time += spinUpDays
	return tr
}

// advance integrates one cycle. A cycle is a quarter of a day.
func (tr *natureRun) advance() {
	tr.g.run(&tr.q, tr.time, stepsPerCycle)
	tr.time += 0.25
}

// assimilationCycle is a data assimilation cycle of the forecast model. In each cycle the state is
// nudged towards observations of the nature run. The weight is proportional to the density of
// observations. The analysis error is therefore flow-dependent and contains the model bias.
//
// Source: Hoke and Anthes 1976, doi:10.1175/1520-0493(1976)104<1551:TIONMB>2.0.CO;2
// (nudging).
type assimilationCycle struct {
	g      *integrator
	q      state
	seed   uint64
	weight []float64
	t      *transform
	grid   []float64
}

// newAssimilationCycle begins with a state of the nature run, so without error;
// assimilationSpinUpDays are needed until the analysis error has its level.
//
// The weight is gain times density of observations, 0 to 0.5, and constant in time.
func newAssimilationCycle(m *model, pl *planet, first *state, seed uint64) *assimilationCycle {
	a := &assimilationCycle{g: m.integrator(), q: *first, seed: seed, t: newTransform(), weight: make([]float64, npoint), grid: make([]float64, npoint)}
	for k := range a.weight {
		a.weight[k] = assimilationGain * pl.observed[k]
	}
	return a
}

// advance integrates one cycle from time t and assimilates observations of the nature run at its
// end. index selects the random stream of the observation errors.
//
// The update of the streamfunction is, at each point,
//
//	ψ ← ψ + w (ψ_nature + error − ψ)
//
// which is nudging by a fixed fraction w. The product with w on the grid is truncated to T21 again.
// The global mean of a streamfunction has no meaning and is set to 0.
func (a *assimilationCycle) advance(t float64, index int, truth *state) {
	a.g.run(&a.q, t, stepsPerCycle)
	var want, have, e state
	a.g.streamfunction(&want, truth)
	a.g.streamfunction(&have, &a.q)
	noise(&e, stream(a.seed, forObservations, index), obsPeak, 0.5)
	addScaled(&want, &e, observationError)
	addScaled(&want, &have, -1)
	for l := range want {
		a.t.toGrid(a.grid, &want[l])
		for k := range a.grid {
			a.grid[k] *= a.weight[k]
		}
		a.t.toSpectrum(&want[l], a.grid)
		want[l][0] = 0
	}
	addScaled(&have, &want, 1)
	a.g.vorticity(&a.q, &have)
}
