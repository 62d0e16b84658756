//go:build cgo

#include "kernels.h"

#include <math.h>
#include <string.h>

#pragma GCC optimize("fp-contract=off,no-trapping-math") /* products are rounded before sums, as in Go */

/* The compiler vectorises the loops, in one version per instruction set, selected at load time. */
#if defined(__x86_64__) && defined(__gnu_linux__)
#include <immintrin.h>
#if __GNUC__ >= 12
#define VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else /* older compilers lack arch=x86-64-v4 */
#define VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define VECTORS
#endif

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef double doubles __attribute__((vector_size(8 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint64_t longs __attribute__((vector_size(8 * LANES)));

/* Points per block. */
#define PIECE 256

/* Square roots with intrinsics: the compiler does not vectorise sqrt, which may set errno. */
#if defined(__x86_64__) && defined(__gnu_linux__)
__attribute__((target("avx512f"))) static void roots512(double *x) {
    for (int i = 0; i < PIECE; i += 8) _mm512_storeu_pd(x + i, _mm512_sqrt_pd(_mm512_loadu_pd(x + i)));
}

static void roots(double *x) {
    if (__builtin_cpu_supports("avx512f")) {
        roots512(x);
        return;
    }
    for (int i = 0; i < PIECE; i += 2) _mm_storeu_pd(x + i, _mm_sqrt_pd(_mm_loadu_pd(x + i)));
}
#else
static void roots(double *x) {
    for (int i = 0; i < PIECE; i++) x[i] = sqrt(x[i]);
}
#endif

/* Independent vector sums, to hide the latency of additions. */
enum { GROUP = 4 };

/* Sums whose bits do not depend on the order of terms. Each term is rounded to a multiple of a step so coarse
   that all partial sums are exact: adding and subtracting 6·2^(k+e) does that for m <= 2^e terms of which
   the largest is below 2^(k+1). Each term loses at most 2^(e-51) of the largest. Squared deviations are at
   most the square of the range. Source: Demmel and Nguyen 2013, doi:10.1109/ARITH.2013.9. */
#define POWER 0x7ff0000000000000ULL /* exponent of a double */
#define SIZE 0x7fffffffffffffffULL  /* all bits but the sign */

static double coarse(double largest, double spare) {
    uint64_t bits;
    memcpy(&bits, &largest, sizeof bits);
    bits &= POWER;
    memcpy(&largest, &bits, sizeof bits);
    return largest * spare;
}

/* moments computes the means of n points from point p on, and the variances Σ(x−mean)²/divisor. */
VECTORS static void moments(float *mean, double *squares, const float *const *x, size_t m, size_t n, size_t p, double divisor) {
    double count = (double)m, spare = 6;
    for (size_t f = 1; f < m; f *= 2) spare *= 2;
    size_t i = 0;
    for (; i + GROUP * LANES <= n; i += GROUP * LANES) {
        doubles sum[GROUP] = {{0}}, square[GROUP] = {{0}}, away[GROUP];
        floats low[GROUP], high[GROUP];
        for (int g = 0; g < GROUP; g++) low[g] = high[g] = *(const floats *)(x[0] + p + i + g * LANES);
        for (size_t f = 1; f < m; f++)
            for (int g = 0; g < GROUP; g++) {
                floats v = *(const floats *)(x[f] + p + i + g * LANES);
                ints less = v < low[g], more = v > high[g];
                low[g] = (floats)(((ints)v & less) | ((ints)low[g] & ~less));
                high[g] = (floats)(((ints)v & more) | ((ints)high[g] & ~more));
            }
        for (int g = 0; g < GROUP; g++) {
            doubles l = __builtin_convertvector(low[g], doubles), h = __builtin_convertvector(high[g], doubles), d = h - l;
            doubles below = (doubles)((longs)l & SIZE), above = (doubles)((longs)h & SIZE);
            longs less = (longs)(below < above);
            away[g] = (doubles)((longs)(d * d) & POWER) * spare;
            sum[g] = (doubles)((((longs)above & less) | ((longs)below & ~less)) & POWER) * spare;
        }
        for (int g = 0; g < GROUP; g++) {
            doubles step = sum[g], all = {0};
            for (size_t f = 0; f < m; f++)
                all += (__builtin_convertvector(*(const floats *)(x[f] + p + i + g * LANES), doubles) + step) - step;
            sum[g] = all / count;
        }
        for (size_t f = 0; f < m; f++)
            for (int g = 0; g < GROUP; g++) {
                doubles d = __builtin_convertvector(*(const floats *)(x[f] + p + i + g * LANES), doubles) - sum[g];
                square[g] += (d * d + away[g]) - away[g];
            }
        for (int g = 0; g < GROUP; g++) {
            *(floats *)(mean + i + g * LANES) = __builtin_convertvector(sum[g], floats);
            square[g] /= divisor;
            memcpy(squares + i + g * LANES, &square[g], sizeof square[g]);
        }
    }
    for (; i < n; i++) {
        double sum = 0, square = 0, low = x[0][p + i], high = low;
        for (size_t f = 1; f < m; f++) {
            double v = x[f][p + i];
            if (v < low) low = v;
            if (v > high) high = v;
        }
        double step = coarse(fabs(low) < fabs(high) ? fabs(high) : fabs(low), spare), away = coarse((high - low) * (high - low), spare);
        for (size_t f = 0; f < m; f++) sum += ((double)x[f][p + i] + step) - step;
        sum /= count;
        for (size_t f = 0; f < m; f++) {
            double d = (double)x[f][p + i] - sum;
            square += (d * d + away) - away;
        }
        mean[i] = (float)sum;
        squares[i] = square / divisor;
    }
}

void ens_mean_std(float *mean, float *std, const float *const *x, size_t m, size_t n, double divisor) {
    double squares[PIECE] = {0};
    for (size_t p = 0; p < n; p += PIECE) {
        size_t k = n - p < PIECE ? n - p : PIECE;
        moments(mean + p, squares, x, m, k, p, divisor);
        roots(squares);
        for (size_t i = 0; i < k; i++) std[p + i] = (float)squares[i];
    }
}

VECTORS void ens_standardise(float *restrict out, const float *restrict x, const double *restrict mean,
                             const double *restrict scale, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float y = (float)(((double)x[i] - mean[i]) / scale[i]);
        out[i] = y == y ? y : 0;
    }
}

VECTORS void ens_scale(float *restrict out, const float *restrict x, float r, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float y = x[i] * r;
        out[i] = y == y ? y : 0;
    }
}

#define MIX 0x5851f42d4c957f2dULL
#define EXPONENT 0x7f800000

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * MIX;
    return h ^ h >> 33;
}

/* count adds one value, which may be NaN or infinite. */
static void count(ens_tally *t, int lane, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v) {
        t->missing++;
        bits = 0x7fc00000; /* one bit pattern for all NaN */
    } else if ((bits & EXPONENT) == EXPONENT) {
        t->infinite++;
    } else {
        double x = v;
        if (v == 0) bits = 0; /* one bit pattern for both zeros */
        if (x < t->min[lane]) t->min[lane] = x;
        if (x > t->max[lane]) t->max[lane] = x;
        t->sum[lane] += x;
        t->squares[lane] += x * x;
    }
    t->hash[lane] = mix(t->hash[lane], bits);
}

/* ordered maps the bits of floats to integers in the same order; it is its own inverse. */
static inline int32_t ordered(int32_t b) { return b ^ (b >> 31 & 0x7fffffff); }

static double number(int32_t key) {
    float v;
    key = ordered(key);
    memcpy(&v, &key, sizeof v);
    return v;
}

VECTORS void ens_count(ens_tally *t, const float *x, size_t n) {
    doubles sum, squares;
    longs hash;
    memcpy(&sum, t->sum, sizeof sum);
    memcpy(&squares, t->squares, sizeof squares);
    memcpy(&hash, t->hash, sizeof hash);
    for (size_t p = 0; p < n; p += PIECE) {
        size_t k = n - p < PIECE ? n - p : PIECE;
        int32_t low = INT32_MAX, high = INT32_MIN, finite = 1;
        for (size_t i = 0; i < k; i++) {
            int32_t b;
            memcpy(&b, x + p + i, sizeof b);
            finite &= (b & EXPONENT) != EXPONENT;
            b = ordered(b);
            low = b < low ? b : low;
            high = b > high ? b : high;
        }
        if (!finite) {
            memcpy(t->sum, &sum, sizeof sum);
            memcpy(t->squares, &squares, sizeof squares);
            memcpy(t->hash, &hash, sizeof hash);
            for (size_t i = 0; i < k; i++) count(t, i % LANES, x[p + i]);
            memcpy(&sum, t->sum, sizeof sum);
            memcpy(&squares, t->squares, sizeof squares);
            memcpy(&hash, t->hash, sizeof hash);
            continue;
        }
        if (number(low) < t->min[0]) t->min[0] = number(low);
        if (number(high) > t->max[0]) t->max[0] = number(high);
        for (size_t i = 0; i < k; i += LANES) {
            floats v = *(const floats *)(x + p + i);
            words bits = (words)(*(const ints *)(x + p + i) & (v != 0));
            doubles d = __builtin_convertvector(v, doubles);
            sum += d;
            squares += d * d;
            hash = (hash ^ __builtin_convertvector(bits, longs)) * MIX;
            hash ^= hash >> 33;
        }
    }
    memcpy(t->sum, &sum, sizeof sum);
    memcpy(t->squares, &squares, sizeof squares);
    memcpy(t->hash, &hash, sizeof hash);
}
