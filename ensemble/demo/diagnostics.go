package demo

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// diagnostics computes the variables of a hindcast archive from a model state with three levels.
// Wind, geopotential and temperature are interpolated or extrapolated to other levels. The other
// variables are estimated from these by simple formulas with realistic ranges.
type diagnostics struct {
	t               *transform
	planet          *planet
	phi             [nlev][]float64 // geopotential minus that of the standard atmosphere, m2 s-2
	u, v            [nlev][]float64 // m s-1
	ascent          []float64       // maximum of the vertical velocity profile, Pa s-1; negative for ascent
	temperature1000 []float64       // temperature at 1000 hPa, K
	seaTemperature  []float64       // sea surface temperature, K, also on land
	column          []float64       // total column water vapour, kg m-2
	tp, cp          []float64       // total and convective precipitation since the initialisation time, m; set by the caller
	regrid          *regridder
	scratch         []float64
	spectrum        spectrum
}

// newDiagnostics allocates all buffers; one diagnostics serves one goroutine.
func newDiagnostics(pl *planet, grid *ensemble.Grid) *diagnostics {
	w := &diagnostics{t: newTransform(), planet: pl, regrid: newRegridder(grid)}
	for l := range nlev {
		w.phi[l], w.u[l], w.v[l] = make([]float64, npoint), make([]float64, npoint), make([]float64, npoint)
	}
	for _, g := range []*[]float64{&w.ascent, &w.temperature1000, &w.seaTemperature, &w.column, &w.scratch} {
		*g = make([]float64, npoint)
	}
	return w
}

// levelWeights returns the weights of the three levels for a streamfunction at a pressure. They are
// linear in ln p, extrapolated below 850 hPa, and damped above 250 hPa. Between levels a and b
//
//	s_b = ln(p/p_a) / ln(p_b/p_a),   s_a = 1 − s_b
//
// and above 250 hPa s₀ = max(0.2, 1 − 0.6 ln(p₀/p)/ln 25), the others 0.
//
// Unit: p in Pa.
func levelWeights(p float64) [nlev]float64 {
	between := func(a, b int) (float64, float64) {
		x := math.Log(p/pressure[a]) / math.Log(pressure[b]/pressure[a])
		return 1 - x, x
	}
	var s [nlev]float64
	switch {
	case p < pressure[0]:
		s[0] = max(0.2, 1-0.6*math.Log(pressure[0]/p)/math.Log(25))
	case p < pressure[1]:
		s[0], s[1] = between(0, 1)
	default:
		s[1], s[2] = between(1, 2)
	}
	return s
}

// interpolateLevels computes a field at a pressure from the fields on three levels.
//
// Unit: p in Pa; dst in that of the fields.
func interpolateLevels(dst []float64, of *[nlev][]float64, p float64) {
	s := levelWeights(p)
	for k := range dst {
		dst[k] = s[0]*of[0][k] + s[1]*of[1][k] + s[2]*of[2][k]
	}
}

// temperature computes the temperature on a pressure level from the hydrostatic equation, for a layer
// with the pressure ratio r²:
//
//	T = (Φ(p/r) − Φ(p r)) / (2 R ln r)
//
// Φ is the geopotential of the standard atmosphere plus the deviation of the state.
//
// Unit: p in Pa; dst in K.
func (w *diagnostics) temperature(dst []float64, p float64) {
	const r = 1.15
	below, above := levelWeights(p*r), levelWeights(p/r)
	standard := gravity * (ensemble.StandardHeight(p/r) - ensemble.StandardHeight(p*r))
	for k := range dst {
		thick := standard
		for l := range nlev {
			thick += (above[l] - below[l]) * w.phi[l][k]
		}
		dst[k] = thick / (gasConstant * 2 * math.Log(r))
	}
}

// set sets the state. day is the time in days since the start of the year. leadDays is the time
// since the initialisation, with which the sea of the forecast drifts. All other variables follow
// from psi; field computes them when they are requested.
func (w *diagnostics) set(psi *state, day, leadDays float64) {
	for l := range psi {
		balance(&w.spectrum, &psi[l])
		w.t.toGrid(w.phi[l], &w.spectrum)
		w.t.wind(w.u[l], w.v[l], &psi[l])
	}
	w.diagnoseAscent()
	w.temperature(w.temperature1000, 100_000)
	// Sea surface temperature: −1.8 °C at the poles, 29 K more at the equator, a season that lags the
	// sun by seaLag days, and a drift of 2 % a day towards the air.
	for j := range nlat {
		lat := latitude(j) * math.Pi / 180
		// The maximum is in late summer of the hemisphere.
		season := -2.5 * math.Sin(lat) * math.Cos(2*math.Pi*(day-midwinter-seaLag)/year)
		for i := range nlon {
			k := j*nlon + i
			t := 271.35 + 29*square(math.Cos(lat)) + season
			w.seaTemperature[k] = max(271.35, t+0.02*leadDays*(w.temperature1000[k]-t))
		}
	}
	clear(w.column)
	// The column of water vapour is Σ q Δp/g over ten layers of equal mass.
	const layers = 10
	for n := range layers {
		p := (float64(n) + 0.5) / layers * 100_000
		w.humidity(w.scratch, p)
		for k, q := range w.scratch {
			w.column[k] += q * 100_000 / layers / gravity
		}
	}
}

// diagnoseAscent computes vertical velocity from temperature advection: ascent for warm advection,
//
//	ω = ω_max tanh(k (u ∂T/∂x + v ∂T/∂y) / ω_max)
//
// with wind and temperature at 700 hPa and centred differences, one-sided at the first and last row.
//
// Unit: Pa s-1, negative for ascent.
func (w *diagnostics) diagnoseAscent() {
	const (
		perAdvection = 3e3 // Pa K-1
		most         = 1.5 // Pa s-1
	)
	t, u, v := make([]float64, npoint), make([]float64, npoint), make([]float64, npoint)
	w.temperature(t, 70_000)
	interpolateLevels(u, &w.u, 70_000)
	interpolateLevels(v, &w.v, 70_000)
	for j := range nlat {
		up, down := max(j-1, 0), min(j+1, nlat-1)
		dy := earthRadius * (latitude(up) - latitude(down)) * math.Pi / 180
		dx := earthRadius * math.Cos(latitude(j)*math.Pi/180) * 4 * math.Pi / nlon
		for i := range nlon {
			k := j*nlon + i
			tx := (t[j*nlon+(i+1)%nlon] - t[j*nlon+(i+nlon-1)%nlon]) / dx
			ty := (t[up*nlon+i] - t[down*nlon+i]) / dy
			w.ascent[k] = most * math.Tanh(perAdvection/most*(u[k]*tx+v[k]*ty))
		}
	}
}

// profile returns the vertical profile of vertical velocity at a pressure, relative to the maximum,
// and its derivative in Pa-1. It is zero at the top and near the surface:
//
//	sin x,   x = π (p / 1050 hPa)^0.8
//
// The derivative is what continuity needs for the divergence: d = −∂ω/∂p.
func profile(p float64) (share, slope float64) {
	const ground, power = 105_000, 0.8
	x := math.Pi * math.Pow(p/ground, power)
	return math.Sin(x), power * x / p * math.Cos(x)
}

// humidity computes specific humidity at a pressure, kg kg-1. Ascending air has high humidity.
//
//	e_s = 611.2 Pa exp(17.67 (T − 273.15)/(T − 29.65))
//	e = min(RH e_s, 0.1 p),   q = 0.622 e / (p − 0.378 e)
//
// Relative humidity RH rises with pressure and with ascent. Above 150 hPa q is that of the stratosphere.
//
// Source of saturation: Bolton 1980, doi:10.1175/1520-0493(1980)108<1046:TCOEPT>2.0.CO;2, eq. 10.
func (w *diagnostics) humidity(dst []float64, p float64) {
	const stratosphere = 3e-6
	w.temperature(dst, p)
	for k, t := range dst {
		if p < 15_000 {
			dst[k] = stratosphere * (1 + 0.002*(t-250))
			continue
		}
		saturation := 611.2 * math.Exp(17.67*(t-273.15)/(t-29.65))
		relative := (0.35 + 0.4*p/100_000) * (1 - 0.3*math.Tanh(2*w.ascent[k]))
		e := min(relative*saturation, 0.1*p)
		dst[k] = max(0.622*e/(p-0.378*e), stratosphere)
	}
}

// addPrecipitation adds the precipitation over a number of days at the current rate, m:
//
//	max(0, −ω − 0.1 Pa s-1) · column / 2000   a day
//
// The convective share is 0.6 in warm air, and falls to 0 in cold air, with half of it at 285 K.
func (w *diagnostics) addPrecipitation(tp, cp []float64, days float64) {
	for k := range tp {
		rate := max(0, -w.ascent[k]-0.1) * w.column[k] / 2000 // m per day
		tp[k] += rate * days
		cp[k] += rate * days * 0.6 / (1 + math.Exp((285-w.temperature1000[k])/5))
	}
}

// cloud returns the cloud cover of a point, 0 to 1: ½ without vertical motion, more for ascent.
func (w *diagnostics) cloud(k int) float64 { return min(1, max(0, 0.5-0.8*w.ascent[k])) }

// field computes a variable at a level on the grid. Missing: sst on land.
//
// The formulas, for the geopotential Φ and the temperature T₁₀₀₀ at 1000 hPa:
//
//	msl  = 1000 hPa · exp(Φ / (R T₁₀₀₀))
//	10u  = 0.7 u₁₀₀₀, likewise 10v
//	2t   = T₁₀₀₀ − 6.5 K km-1 · height
//	skt  = over land 2t + 2 K − 4 K · cloud; over sea 0.9 sst + 0.1 T₁₀₀₀
//	w    = profile · ω_max,   d = −∂w/∂p
//
// Shape: dst [NY·NX] of the archive's grid.
// Unit: that of the variable in ensemble.Variables.
// Errors: a variable or level that is not in this vocabulary; precipitation of an analysis.
func (w *diagnostics) field(dst []float32, variable string, level ensemble.Level) error {
	x := w.scratch
	each := func(f func(k int) float64) {
		for k := range x {
			x[k] = f(k)
		}
	}
	p := level.Value
	if v, ok := ensemble.VariableNamed(variable); !ok || v.OnManyLevels() != (level.Kind == ensemble.Pressure) {
		return fmt.Errorf("demo: no weather for %s at %s", variable, level)
	}
	if (variable == "tp" || variable == "cp") && w.tp == nil {
		return fmt.Errorf("demo: an analysis has no %s", variable)
	}
	switch variable {
	case "z":
		interpolateLevels(x, &w.phi, p)
		standard := gravity * ensemble.StandardHeight(p)
		each(func(k int) float64 { return x[k] + standard })
	case "t":
		w.temperature(x, p)
	case "u":
		interpolateLevels(x, &w.u, p)
	case "v":
		interpolateLevels(x, &w.v, p)
	case "q":
		w.humidity(x, p)
	case "w":
		shape, _ := profile(p)
		each(func(k int) float64 { return shape * w.ascent[k] })
	case "d":
		_, slope := profile(p)
		each(func(k int) float64 { return -slope * w.ascent[k] })
	case "10u", "10v":
		of := &w.u
		if variable == "10v" {
			of = &w.v
		}
		interpolateLevels(x, of, 100_000)
		each(func(k int) float64 { return 0.7 * x[k] })
	case "2t":
		each(func(k int) float64 { return w.temperature1000[k] - 0.0065*w.planet.height[k] })
	case "skt":
		each(func(k int) float64 {
			land := w.temperature1000[k] + 2 - 4*w.cloud(k) - 0.0065*w.planet.height[k]
			return w.planet.land[k]*land + (1-w.planet.land[k])*(0.9*w.seaTemperature[k]+0.1*w.temperature1000[k])
		})
	case "sst":
		copy(x, w.seaTemperature)
	case "msl":
		interpolateLevels(x, &w.phi, 100_000)
		z := gravity * ensemble.StandardHeight(100_000)
		each(func(k int) float64 { return 100_000 * math.Exp((x[k]+z)/(gasConstant*w.temperature1000[k])) })
	case "tcwv":
		copy(x, w.column)
	case "tcw":
		each(func(k int) float64 { return w.column[k] + 0.3*w.cloud(k) })
	case "tcc":
		each(w.cloud)
	case "tp":
		copy(x, w.tp)
	case "cp":
		copy(x, w.cp)
	default:
		return fmt.Errorf("demo: no weather for %s", variable)
	}
	w.regrid.apply(dst, x)
	if variable == "sst" {
		w.regrid.mask(dst, w.planet.land)
	}
	return nil
}

// regridder interpolates bilinearly from the model grid to another grid. Weights are computed once
// for each row and column, since all fields have the same grids.
type regridder struct {
	nx         int
	rows, cols []axisWeight
}

// axisWeight is a position on an axis: the weight of the second point; the first has the rest.
type axisWeight struct {
	a, b  int
	share float64
}

// newRegridder finds the two neighbours of each row and column. Beyond the first and last Gaussian
// row the value of that row is taken; columns are periodic.
func newRegridder(g *ensemble.Grid) *regridder {
	p := &regridder{nx: g.NX}
	for _, lat := range g.Lat {
		j := 0
		for j < nlat-2 && latitude(j+1) >= lat {
			j++
		}
		s := (latitude(j) - lat) / (latitude(j) - latitude(j+1))
		p.rows = append(p.rows, axisWeight{j, j + 1, min(1, max(0, s))})
	}
	for _, lon := range g.Lon {
		x := math.Mod(lon/360*nlon+nlon, nlon)
		i := int(x)
		p.cols = append(p.cols, axisWeight{i % nlon, (i + 1) % nlon, x - float64(i)})
	}
	return p
}

// apply interpolates first along the row, then between rows.
//
// Shape: x [nlat·nlon]; dst [NY·NX].
func (p *regridder) apply(dst []float32, x []float64) {
	for j, r := range p.rows {
		a, b := x[r.a*nlon:(r.a+1)*nlon], x[r.b*nlon:(r.b+1)*nlon]
		for i, c := range p.cols {
			north := a[c.a] + c.share*(a[c.b]-a[c.a])
			south := b[c.a] + c.share*(b[c.b]-b[c.a])
			dst[j*p.nx+i] = float32(north + r.share*(south-north))
		}
	}
}

// mask sets land points to missing. Land is where the interpolated land fraction exceeds ½.
func (p *regridder) mask(dst []float32, land []float64) {
	on := make([]float32, len(dst))
	p.apply(on, land)
	for i, x := range on {
		if x > 0.5 {
			dst[i] = float32(math.NaN())
		}
	}
}
