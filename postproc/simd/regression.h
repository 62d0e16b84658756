// The mean CRPS of a regression with its derivatives, at LANES neighbouring points.
#ifndef ENSEMBLE_REGRESSION_H
#define ENSEMBLE_REGRESSION_H

enum { LANES = 16 };
enum { SIMD_LINEAR, SIMD_QUADRATIC, SIMD_LOG };

// simd_normal_sums computes k_normal_sums (regression.inc.h) with the selected instruction set.
#define SUMS double *out, const double *theta, const double *season, const float *anomaly, const float *spread, const float *obs, \
	long dates, long seasons, int link
void simd_normal_sums(SUMS);

// simd_use selects an instruction set by name, or the best one that the CPU supports if name is
// NULL. It returns 1 if the CPU does not support it. Names are for tests.
int simd_use(const char *name);

#endif
