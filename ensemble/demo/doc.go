// Package demo generates synthetic ensemble forecasts and analyses with a chaotic model of the
// atmosphere. It is an imperfect-model twin experiment. It demonstrates post-processing without
// external data.
//
// The model is quasi-geostrophic on the sphere with three levels at T21 (model.go, after Marshall
// and Molteni 1993). It has seasons, orography, land and sea of a synthetic Earth-like planet. The
// nature run and the forecast model have different physics (physics.go): the forecast model has
// weaker latent heat release and a drag that does not depend on the wind speed. The forecast error
// therefore depends on weather, place and season. The initial states are analyses of a data
// assimilation cycle of the forecast model (assimilation.go) with bred-vector perturbations
// (generate.go, perturb.go), whose amplitude is slightly too small. No random error is added to
// a forecast.
//
// The physics must not change: docs/decisions/0003-demo-atmosphere.md.
package demo
