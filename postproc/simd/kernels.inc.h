// The kernels, compiled once for the instruction set that the including file selected.
// All names are static: one set per file.
//
// A vector holds VL neighbouring points of one member; sorting compares vectors, so VL
// points are sorted at a time without a branch. Up to 16 members lie in registers
// (networks.inc.h); more are sorted in runs of 16 and merged (bitonic) in a buffer that
// stays in the first cache.
#pragma GCC optimize("no-math-errno,no-trapping-math")
#include "networks.inc.h"
#include "simd.h"
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

typedef float vec __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int ivec __attribute__((vector_size(VL * 4), aligned(4), may_alias));

#if VL == 16 && defined(__AVX512F__)
#include <immintrin.h>
INLINE vec lower(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vec upper(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vec root(vec a) { return (vec)_mm512_sqrt_ps((__m512)a); }
#elif VL == 8 && defined(__AVX2__)
#include <immintrin.h>
INLINE vec lower(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vec upper(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vec root(vec a) { return (vec)_mm256_sqrt_ps((__m256)a); }
#elif VL == 4 && defined(__SSE2__)
#include <immintrin.h>
INLINE vec lower(vec a, vec b) { return (vec)_mm_min_ps((__m128)a, (__m128)b); }
INLINE vec upper(vec a, vec b) { return (vec)_mm_max_ps((__m128)a, (__m128)b); }
INLINE vec root(vec a) { return (vec)_mm_sqrt_ps((__m128)a); }
#else
INLINE vec lower(vec a, vec b) {
	ivec m = a < b;
	return (vec)((m & (ivec)a) | (~m & (ivec)b));
}
INLINE vec upper(vec a, vec b) {
	ivec m = a > b;
	return (vec)((m & (ivec)a) | (~m & (ivec)b));
}
INLINE vec root(vec a) {
	for (int i = 0; i < VL; i++) a[i] = sqrtf(a[i]);
	return a;
}
#endif

INLINE vec load(const float *p) { return *(const vec *)p; }
INLINE void store(float *p, vec v) { *(vec *)p = v; }
INLINE vec all(float x) { return x - (vec){0}; }
INLINE vec size(vec a) { return (vec)((ivec)a & 0x7fffffff); }

// SWAP leaves the smaller of two in the first.
#define SWAP(a, b)              \
	do {                        \
		vec low_ = lower(a, b); \
		b = upper(a, b);        \
		a = low_;               \
	} while (0)
#define COMPARE(i, j) SWAP(v[i], v[j]);

// sort_small sorts v[0..m), m a constant of at most 16.
INLINE void sort_small(vec *v, int m) {
	switch (m) {
#define CASE(n) \
	case n: NETWORK_##n(COMPARE) break;
		CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
	}
}

// merge16 sorts 16 values that rise and then fall, or the other way round.
INLINE void merge16(vec *v) {
	UNROLL for (int i = 0; i < 8; i++) SWAP(v[i], v[i + 8]);
	UNROLL for (int i = 0; i < 4; i++) { SWAP(v[i], v[i + 4]); SWAP(v[i + 8], v[i + 12]); }
	UNROLL for (int i = 0; i < 4; i++) { SWAP(v[4 * i], v[4 * i + 2]); SWAP(v[4 * i + 1], v[4 * i + 3]); }
	UNROLL for (int i = 0; i < 8; i++) SWAP(v[2 * i], v[2 * i + 1]);
}

// sort_large sorts the first m rows of v. Rows up to the next power of two, which is 32 at
// least, are filled with infinity. Every pass does as many stages as registers allow: loads
// and stores would take longer than comparing.
static void sort_large(vec *v, long m) {
	long rows = 32;
	while (rows < m) rows *= 2;
	for (long i = m; i < rows; i++) v[i] = all(INFINITY);
	for (long r = 0; r + 1 < m; r += 16) {
		if (m - r == 2) {
			SWAP(v[r], v[r + 1]);
			break;
		}
		vec w[16];
		UNROLL for (int i = 0; i < 16; i++) w[i] = v[r + i];
		sort_small(w, 16);
		UNROLL for (int i = 0; i < 16; i++) v[r + i] = w[i];
	}
	// Two rising runs, the second read backwards, rise and fall. Where the second holds
	// infinities only there is nothing to merge.
	for (long r = 0; r + 16 < m; r += 32) {
		vec w[32];
		UNROLL for (int i = 0; i < 16; i++) {
			w[i] = v[r + i];
			w[31 - i] = v[r + 31 - i];
			SWAP(w[i], w[31 - i]);
		}
		merge16(w);
		UNROLL for (int i = 0; i < 16; i++) v[r + i] = w[i];
		merge16(w + 16);
		UNROLL for (int i = 16; i < 32; i++) v[r + i] = w[i];
	}
	for (long run = 32; run < rows; run *= 2) {
		for (long r = 0; r + run < m; r += 2 * run) {
			vec *low = v + r, *high = v + r + 2 * run - 1;
			long half = run / 2;
			for (long i = 0; i < half; i++) { // two stages at once
				vec a = low[i], b = low[i + half], c = high[-i], d = high[-i - half];
				SWAP(a, c);
				SWAP(b, d);
				SWAP(a, b);
				SWAP(d, c);
				low[i] = a, low[i + half] = b, high[-i] = c, high[-i - half] = d;
			}
			for (long d = half / 2; d >= 16; d /= 2)
				for (long s = r; s < r + 2 * run; s += 2 * d)
					for (long i = s; i < s + d; i++) SWAP(v[i], v[i + d]);
			for (long s = r; s < r + 2 * run && s < m; s += 16) {
				vec w[16];
				UNROLL for (int i = 0; i < 16; i++) w[i] = v[s + i];
				merge16(w);
				UNROLL for (int i = 0; i < 16; i++) v[s + i] = w[i];
			}
		}
	}
}

// AHEAD asks for what comes four vectors later, for the second cache: fields often begin at
// one offset in their pages, and so many lines of the first cache are one and the same.
#define AHEAD(at) __builtin_prefetch((at) + 4 * VL, 0, 2)

// SPAN calls the body for every vector of points: the last one overlaps the one before.
// Fewer than VL points in all are handled by the caller.
#define SPAN(p, n) for (long p = 0, end_ = (n); p < end_; p = p + VL <= end_ - VL || p + VL >= end_ ? p + VL : end_ - VL)

INLINE void crps_small(float *dst, const float *const *x, int m, const float *y, long n, float pair) {
	float inverse = 1.0f / m;
	SPAN(p, n) {
		vec v[16], o = load(y + p), near = {0}, far = {0};
		UNROLL for (int i = 0; i < m; i++) {
			v[i] = load(x[i] + p) - o;
			near += size(v[i]);
		}
		sort_small(v, m);
		UNROLL for (int i = 0; i < m / 2; i++) far += (float)(m - 1 - 2 * i) * (v[m - 1 - i] - v[i]);
		store(dst + p, near * inverse - far * pair);
	}
}

// k_crps: dst = mean|x−y| − pair Σ_k (2k−m+1) x_(k), at least VL points.
static void k_crps(float *dst, const float *const *x, long m, const float *y, long n, float pair) {
	switch (m) {
#define CASE(c) \
	case c: crps_small(dst, x, c, y, n, pair); return;
		CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
	}
	vec v[SIMD_MOST] __attribute__((aligned(64)));
	float inverse = 1.0f / m;
	SPAN(p, n) {
		vec o = load(y + p), near = {0}, far = {0};
		for (long i = 0; i < m; i++) {
			vec d = load(x[i] + p) - o;
			AHEAD(x[i] + p);
			near += size(d);
			v[i] = d;
		}
		sort_large(v, m);
		for (long i = 0; i < m / 2; i++) far += (float)(m - 1 - 2 * i) * (v[m - 1 - i] - v[i]);
		store(dst + p, near * inverse - far * pair);
	}
}

// Means take GROUP vectors at a time, so that additions do not wait for each other.
enum { GROUP = 4 };

// k_mean_std: mean, and the root of Σ(x−mean)² times inverse. Differences to the first
// member keep the digits.
static void k_mean_std(float *mean, float *std, const float *const *x, long m, long n, float inverse) {
	float part = 1.0f / m;
	long p = 0;
	for (; p + GROUP * VL <= n; p += GROUP * VL) {
		vec first[GROUP], sum[GROUP], square[GROUP];
		UNROLL for (int g = 0; g < GROUP; g++) {
			first[g] = load(x[0] + p + g * VL);
			sum[g] = square[g] = all(0);
		}
		for (long i = 1; i < m; i++)
			UNROLL for (int g = 0; g < GROUP; g++) sum[g] += load(x[i] + p + g * VL) - first[g];
		UNROLL for (int g = 0; g < GROUP; g++) sum[g] = first[g] + sum[g] * part;
		for (long i = 0; i < m; i++)
			UNROLL for (int g = 0; g < GROUP; g++) {
				vec d = load(x[i] + p + g * VL) - sum[g];
				square[g] += d * d;
			}
		UNROLL for (int g = 0; g < GROUP; g++) {
			store(mean + p + g * VL, sum[g]);
			store(std + p + g * VL, root(square[g] * inverse));
		}
	}
	for (; p < n; p++) {
		float sum = 0, square = 0;
		for (long i = 1; i < m; i++) sum += x[i][p] - x[0][p];
		sum = x[0][p] + sum * part;
		for (long i = 0; i < m; i++) square += (x[i][p] - sum) * (x[i][p] - sum);
		mean[p] = sum;
		std[p] = sqrtf(square * inverse);
	}
}

// pick writes the quantiles of sorted rows; bad is not zero where a member is missing.
INLINE void pick(float *const *dst, const vec *v, long p, ivec bad, const long *at, const float *part, long levels) {
	for (long q = 0; q < levels; q++) {
		vec a = v[at[q]], b = v[at[q] + 1];
		vec r = a;
		if (part[q] != 0) r += part[q] * (b - a);
		store(dst[q] + p, (vec)((ivec)r | bad)); // all bits set are a NaN
	}
}

INLINE void quantiles_small(float *const *dst, const float *const *x, int m, long n, const long *at, const float *part, long levels) {
	SPAN(p, n) {
		vec v[17];
		ivec bad = {0};
		UNROLL for (int i = 0; i < m; i++) {
			v[i] = load(x[i] + p);
			bad |= v[i] != v[i];
		}
		sort_small(v, m);
		v[m] = v[m - 1];
		pick(dst, v, p, bad, at, part, levels);
	}
}

// k_quantiles: level q lies at at[q] + part[q] among the sorted members, at least VL points.
static void k_quantiles(float *const *dst, const float *const *x, long m, long n, const long *at, const float *part, long levels) {
	switch (m) {
#define CASE(c) \
	case c: quantiles_small(dst, x, c, n, at, part, levels); return;
		CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
	}
	vec v[SIMD_MOST + 1] __attribute__((aligned(64)));
	SPAN(p, n) {
		ivec bad = {0};
		for (long i = 0; i < m; i++) {
			vec a = load(x[i] + p);
			AHEAD(x[i] + p);
			bad |= a != a;
			v[i] = a;
		}
		sort_large(v, m);
		v[m] = v[m - 1];
		pick(dst, v, p, bad, at, part, levels);
	}
}

#include "regression.inc.h"
