#include <stddef.h>
#include <stdint.h>

/* Lanes of the statistics: value i of a field belongs to lane i % LANES. */
enum { LANES = 8 };

typedef struct {
    int64_t missing, infinite;
    double min[LANES], max[LANES], sum[LANES], squares[LANES];
    uint64_t hash[LANES];
} ens_tally;

void ens_mean_std(float *mean, float *std, const float *const *x, size_t m, size_t n, double divisor);
void ens_standardise(float *out, const float *x, const double *mean, const double *scale, size_t n);
void ens_scale(float *out, const float *x, float r, size_t n);
/* ens_count adds n values, a multiple of LANES, to the statistics. */
void ens_count(ens_tally *t, const float *x, size_t n);
