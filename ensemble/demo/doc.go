// Package demo is the chaotic atmosphere that the program makes itself: an
// imperfect-model twin experiment, so that learning from past forecasts can be shown
// anywhere, without data from outside.
//
// The atmosphere is quasi-geostrophic on the sphere, three levels at T21
// (model.go, after Marshall and Molteni 1993), with seasons, mountains, land and sea
// of an invented but Earth-like planet. Truth runs with one physics, the forecast
// model with another (physics.go): the forecast model knows less of how
// condensation strengthens storms, and drags all winds alike. So its error depends
// on the weather, the place and the season, as in reality. Forecasts start from an
// assimilation run of the forecast model (cycle.go) and from perturbations bred
// along its flow (generate.go, perturb.go), somewhat too small. Nowhere
// is an error drawn at random and added to a forecast.
//
// The physics are frozen: docs/decisions/0003-demo-atmosphere.md.
package demo
