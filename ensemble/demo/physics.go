package demo

// physics contains the parameters of the model physics. The nature run and the forecast model have
// different parameters. docs/decisions/0003-demo-atmosphere.md contains the reasons and the fixed
// values.
type physics struct {
	// Newtonian relaxation of the two thicknesses, days.
	relaxUpper, relaxLower float64
	// Equilibrium: peak vertical shear of the zonal wind in each thickness
	// (m s-1), its latitude and half width (degrees), its change from annual
	// mean to midwinter (fraction) and its shift equatorward in midwinter (degrees).
	shearUpper, shearLower float64
	jetLat, jetWidth       float64
	seasonShear            float64
	seasonShift            float64
	// Midwinter cooling of the lower layer over land against sea, K.
	contrast float64
	// Ekman drag of the lowest level: 1/days over sea, additional over land,
	// additional over ground of 1000 m and more. The fraction gust of it grows
	// with the local wind speed, as with a quadratic law, and is exact at 10 m s-1.
	dragSea, dragLand, dragHeight float64
	gust                          float64
	// Scale-selective diffusion: days for the smallest wave.
	diffusion float64
	// Mountains: factor on the height and degree where smoothing takes 1/e.
	heightFactor float64
	heightDegree float64
	// Latent heat: the fraction of adiabatic cooling in ascending (warm-advected)
	// air that condensation compensates, over sea and over land, and its growth
	// with temperature (1/K), as the vapour capacity of air grows.
	latentSea, latentLand float64
	vapour                float64
	latentUpper           float64 // share passed to the upper layer
	// Heat from a warmer sea into colder air, 1/days; the fraction seaGust of it
	// grows with the wind. Into warmer air the exchange has the fraction stable.
	seaHeat, seaGust, stable float64
	seaExcess                float64 // sea surface minus equilibrium temperature, K
}

// natural is the physics of the nature run.
var natural = physics{
	relaxUpper: 12, relaxLower: 7,
	shearUpper: 19, shearLower: 18,
	jetLat: 37, jetWidth: 19, seasonShear: 0.28, seasonShift: 4,
	contrast: 12,
	dragSea:  0.28, dragLand: 0.30, dragHeight: 0.30, gust: 0.7,
	diffusion:    2.0,
	heightFactor: 1.0, heightDegree: 17,
	latentSea: 0.50, latentLand: 0.25, vapour: 0.06, latentUpper: 0.5,
	seaHeat: 0.30, seaGust: 0.7, stable: 0.1, seaExcess: 1,
}

// modelled is the physics of the forecast model.
var modelled = physics{
	relaxUpper: 11, relaxLower: 8,
	shearUpper: 19, shearLower: 18.5,
	jetLat: 37, jetWidth: 19.5, seasonShear: 0.26, seasonShift: 3.5,
	contrast: 10,
	dragSea:  0.35, dragLand: 0.27, dragHeight: 0.25, gust: 0,
	diffusion:    1.5,
	heightFactor: 0.9, heightDegree: 15,
	latentSea: 0.36, latentLand: 0.30, vapour: 0.025, latentUpper: 0.5,
	seaHeat: 0.18, seaGust: 0, stable: 0.5, seaExcess: 0,
}
