// Kernels over the members of an ensemble, point by point. Fields are float32, one
// pointer for each member, n points each.
#ifndef ENSEMBLE_SIMD_H
#define ENSEMBLE_SIMD_H

#define KERNELS(X)                                                                                   \
	X(crps, (float *dst, const float *const *x, long m, const float *y, long n, float pair),         \
	  (dst, x, m, y, n, pair))                                                                       \
	X(mean_std, (float *mean, float *std, const float *const *x, long m, long n, float inverse),     \
	  (mean, std, x, m, n, inverse))                                                                 \
	X(quantiles, (float *const *dst, const float *const *x, long m, long n, const long *at, const float *part, long levels), \
	  (dst, x, m, n, at, part, levels))                                                              \
	X(normal_sums, (double *out, const double *theta, const double *season, const float *anomaly, const float *spread,   \
		const float *obs, long dates, long seasons, int link),                                           \
	  (out, theta, season, anomaly, spread, obs, dates, seasons, link))

typedef struct {
	const char *name;
#define X(name, params, args) void(*name) params;
	KERNELS(X)
#undef X
} simd_isa;

extern const simd_isa simd_isa_base, simd_isa_avx2, simd_isa_avx512;

#define X(name, params, args) void simd_##name params;
KERNELS(X)
#undef X

const char *simd_isa_name(void);
int simd_isa_use(const char *name); // 0, or 1 if this machine lacks it

enum { SIMD_MOST = 1024 }; // members
enum { SIMD_LANES = 16 };  // points of a regression side by side
enum { SIMD_LINEAR, SIMD_QUADRATIC, SIMD_LOG };

#endif
