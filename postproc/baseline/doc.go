// Package baseline holds the forecasts that everything new is judged against:
// climatology; EMOS (regression of a distribution on the ensemble's mean and
// spread) for the globe and for every grid point, with several families and the
// season; members corrected one by one; quantile mapping; and the best affine
// correction of a small ensemble's spread.
//
// Each baseline is fitted from the cases that it is handed, and from nothing else:
// what is not among them cannot leak into it. All distributions are fitted by least
// mean CRPS, with the formulas and gradients of postproc/dist. Results do not depend
// on the number of processors.
package baseline
