#ifndef ENSEMBLE_CHUNKS_H
#define ENSEMBLE_CHUNKS_H

#include <hdf5.h>
#include <stddef.h>

#define ENS_MAX_DIMS 32
#define ENS_MAX_MISSING 4

/* How stored numbers become values: those outside [lo, hi] and the missing ones are NaN, to
 * negative ones is added unsigned, the rest is x*scale + shift, in double precision. */
typedef struct {
    double missing[ENS_MAX_MISSING];
    int n_missing;
    double lo, hi, scale, shift, add;
} ens_rules;

/* A variable whose chunks are deflated, with inflated chunks that later parts may need. */
typedef struct ens_chunks ens_chunks;

/* The file for reading; negative if HDF5 cannot open it. */
hid_t ens_hdf5_open(const char *path);

/* The variable at a path; NULL if it is not stored so that it can be read here: in chunks,
 * deflated, shuffled or not, as numbers of up to 8 bytes, the lowest first. */
ens_chunks *ens_chunks_open(hid_t file, const char *path);
void ens_chunks_close(ens_chunks *c);

/* Reads a part into out, its dimensions in order. 0: done; 1: the library has to read it,
 * as a chunk was never written or is stored otherwise; -1: a chunk cannot be read. */
int ens_chunks_read(ens_chunks *c, int ndims, const size_t *start, const size_t *count, const ens_rules *rules, float *out);

#endif
