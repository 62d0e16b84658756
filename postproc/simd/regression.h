// Sums of a regression, at LANES points side by side.
#ifndef ENSEMBLE_REGRESSION_H
#define ENSEMBLE_REGRESSION_H

enum { LANES = 16 };
enum { SIMD_LINEAR, SIMD_QUADRATIC, SIMD_LOG };

// simd_normal_sums does what k_normal_sums in regression.inc.h describes.
#define SUMS double *out, const double *theta, const double *season, const float *anomaly, const float *spread, const float *obs, \
	long dates, long seasons, int link
void simd_normal_sums(SUMS);

// simd_use takes the best instruction set of this machine, or for tests the one of a name; 1
// if this machine lacks it.
int simd_use(const char *name);

#endif
