// Package baseline holds the forecasts that everything new is judged against:
// climatology, EMOS (regression of a normal distribution on the ensemble's mean
// and spread) for the globe and for every grid point, and the best affine
// correction of a small ensemble's spread.
//
// Each baseline is fitted from a Set, and from nothing else: what is not in the
// Set cannot leak into it. All distributions are fitted by least mean CRPS, with
// the formulas and gradients of postproc/dist. Results do not depend on the
// number of processors.
package baseline
