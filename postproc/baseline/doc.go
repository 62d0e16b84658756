// Package baseline implements statistical forecasts to which networks are compared:
//
//	climatology           seasonal cycle of the analyses, independent of the forecast
//	EMOS                  regression of a distribution on ensemble mean and spread:
//	  EMOS                  one set of coefficients for all points and dates
//	  GridEMOS              coefficients at every point, shrunk towards those of all
//	  Regression            any location-scale family, at every point or pooled
//	  GammaEMOS             censored, shifted gamma distribution, for precipitation
//	  SAMOS                 standardised anomalies, one fit for all points and seasons
//	MemberByMember        linear correction of each member
//	QuantileMap           forecast climatology to observed climatology
//	AffineSpread          correction of the spread of a small ensemble
//
// A baseline is fitted to the cases of a Set only, so other dates cannot leak into it.
// Distributions are fitted by least mean CRPS, with the formulas and gradients of package
// dist. Results do not depend on the number of processors. Methods is the table of the
// baselines that configurations can select.
package baseline
