#ifndef ENSEMBLE_CHUNKS_H
#define ENSEMBLE_CHUNKS_H

#include <hdf5.h>
#include <stddef.h>

#define ENS_MAX_DIMS 32
#define ENS_MAX_MISSING 4

/* Unpacking of stored numbers (cf.Packing): values outside of [lo, hi] and missing ones become NaN, add is added
 * to negative ones, and the rest is x*scale + shift, in double precision. */
typedef struct {
    double missing[ENS_MAX_MISSING];
    int n_missing;
    double lo, hi, scale, shift, add;
} ens_rules;

/* A variable with deflated chunks, and a cache of inflated ones. */
typedef struct ens_chunks ens_chunks;

/* Opens a file for reading; negative if HDF5 cannot open it. */
hid_t ens_hdf5_open(const char *path);

/* Opens the variable at a path; NULL unless it has deflated chunks, shuffled or not, of little-endian numbers of up to
 * 8 bytes. */
ens_chunks *ens_chunks_open(hid_t file, const char *path);
void ens_chunks_close(ens_chunks *c);

/* Reads a slab into out, in the order of dimensions. 0: done; 1: netCDF must read it, because a chunk was never written
 * or is stored in another form; -1: a chunk cannot be read. */
int ens_chunks_read(ens_chunks *c, int ndims, const size_t *start, const size_t *count, const ens_rules *rules, float *out);

#endif
