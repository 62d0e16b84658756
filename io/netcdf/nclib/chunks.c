#include "chunks.h"

#include <libdeflate.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC optimize("fp-contract=off") /* no fused multiply-add, as in Go on amd64 */

#if defined(__x86_64__) && defined(__gnu_linux__)
#if __GNUC__ >= 12
#define VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else /* this compiler does not know the level */
#define VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define VECTORS
#endif

/* Inflated chunks that several slabs need are cached, up to this number of bytes. */
#define KEEP ((size_t)128 << 20)
#define MAX_CHUNK ((size_t)1 << 30)

typedef struct {
    hsize_t at[ENS_MAX_DIMS];
    unsigned char *data;
    unsigned long used;
} kept;

struct ens_chunks {
    hid_t set;
    int ndims, shuffle;
    hsize_t dims[ENS_MAX_DIMS], chunk[ENS_MAX_DIMS];
    H5T_class_t class;
    int is_signed;
    size_t width, n; /* bytes per value, values per chunk */
    kept *keep;
    size_t n_keep, room; /* cached chunks, and their maximum */
    unsigned long clock;
    unsigned char *raw, *shuffled;
    size_t raw_room;
    struct libdeflate_decompressor *inflate;
};

hid_t ens_hdf5_open(const char *path) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access < 0) return -1;
    /* The setting must equal that of netCDF, which has the same file open; it depends on its build. */
    static const H5F_close_degree_t degrees[] = {H5F_CLOSE_WEAK, H5F_CLOSE_STRONG, H5F_CLOSE_SEMI};
    hid_t file = -1;
    for (int i = 0; file < 0 && i < 3; i++) {
        H5Pset_fclose_degree(access, degrees[i]);
        file = H5Fopen(path, H5F_ACC_RDONLY, access);
    }
    H5Pclose(access);
    return file;
}

/* The only accepted filters are deflate, or shuffle followed by deflate. */
static int filters(ens_chunks *c, hid_t how) {
    int n = H5Pget_nfilters(how);
    if (n < 1 || n > 2) return 0;
    for (int i = 0; i < n; i++) {
        unsigned flags, config;
        size_t none = 0;
        H5Z_filter_t f = H5Pget_filter2(how, (unsigned)i, &flags, &none, NULL, 0, NULL, &config);
        if (i == n - 1 ? f != H5Z_FILTER_DEFLATE : f != H5Z_FILTER_SHUFFLE) return 0;
    }
    c->shuffle = n == 2;
    return 1;
}

static int number(ens_chunks *c, hid_t type) {
    c->class = H5Tget_class(type);
    c->width = H5Tget_size(type);
    if (c->width > 1 && H5Tget_order(type) != H5T_ORDER_LE) return 0;
    c->is_signed = c->class == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2;
    if (c->class == H5T_FLOAT) return H5Tequal(type, H5T_IEEE_F32LE) > 0 || H5Tequal(type, H5T_IEEE_F64LE) > 0;
    return c->class == H5T_INTEGER && H5Tget_precision(type) == 8 * c->width && (c->width == 1 || c->width == 2 || c->width == 4);
}

static int describe(ens_chunks *c) {
    int ok = 0;
    hid_t how = H5Dget_create_plist(c->set), type = H5Dget_type(c->set), space = H5Dget_space(c->set);
    if (how >= 0 && type >= 0 && space >= 0 && H5Pget_layout(how) == H5D_CHUNKED && filters(c, how) && number(c, type)) {
        c->ndims = H5Sget_simple_extent_ndims(space);
        ok = c->ndims > 0 && c->ndims <= ENS_MAX_DIMS && H5Sget_simple_extent_dims(space, c->dims, NULL) == c->ndims &&
             H5Pget_chunk(how, c->ndims, c->chunk) == c->ndims;
        c->n = 1;
        for (int d = 0; ok && d < c->ndims; d++) {
            ok = c->chunk[d] > 0 && c->chunk[d] <= MAX_CHUNK / c->width / c->n;
            c->n *= ok ? c->chunk[d] : 1;
        }
    }
    if (how >= 0) H5Pclose(how);
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    return ok;
}

ens_chunks *ens_chunks_open(hid_t file, const char *path) {
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) return NULL;
    ens_chunks *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->set = H5Dopen2(file, path, H5P_DEFAULT);
    if (c->set < 0 || !describe(c)) {
        ens_chunks_close(c);
        return NULL;
    }
    c->room = KEEP / (c->n * c->width);
    if (c->room < 1) c->room = 1;
    if (c->room > 4096) c->room = 4096;
    c->keep = calloc(c->room, sizeof *c->keep);
    c->inflate = libdeflate_alloc_decompressor();
    c->shuffled = c->shuffle ? malloc(c->n * c->width) : NULL;
    if (!c->keep || !c->inflate || (c->shuffle && !c->shuffled)) {
        ens_chunks_close(c);
        return NULL;
    }
    return c;
}

void ens_chunks_close(ens_chunks *c) {
    if (!c) return;
    if (c->set >= 0) H5Dclose(c->set);
    for (size_t i = 0; i < c->n_keep; i++) free(c->keep[i].data);
    free(c->keep);
    free(c->raw);
    free(c->shuffled);
    if (c->inflate) libdeflate_free_decompressor(c->inflate);
    free(c);
}

/* Unshuffle: byte b of value i is at b*n + i. */
VECTORS static void unshuffle(unsigned char *restrict out, const unsigned char *restrict in, size_t n, size_t width) {
    const unsigned char *a = in, *b = in + n, *c = in + 2 * n, *d = in + 3 * n;
    switch (width) {
    case 2:
        for (size_t i = 0; i < n; i++) ((uint16_t *)out)[i] = (uint16_t)(a[i] | b[i] << 8);
        return;
    case 4:
        for (size_t i = 0; i < n; i++) ((uint32_t *)out)[i] = (uint32_t)a[i] | (uint32_t)b[i] << 8 | (uint32_t)c[i] << 16 | (uint32_t)d[i] << 24;
        return;
    default:
        for (size_t k = 0; k < width; k++)
            for (size_t i = 0; i < n; i++) out[i * width + k] = in[k * n + i];
    }
}

/* Returns the inflated chunk at an offset, from the cache or the file. NULL: *status is the reason. */
static const unsigned char *fetch(ens_chunks *c, const hsize_t *at, int *status) {
    size_t oldest = 0;
    for (size_t i = 0; i < c->n_keep; i++) {
        if (!memcmp(c->keep[i].at, at, (size_t)c->ndims * sizeof *at)) {
            c->keep[i].used = ++c->clock;
            return c->keep[i].data;
        }
        if (c->keep[i].used < c->keep[oldest].used) oldest = i;
    }
    hsize_t stored = 0;
    *status = 1;
    if (H5Dget_chunk_storage_size(c->set, at, &stored) < 0 || stored == 0) return NULL;
    *status = -1;
    if (stored > 2 * MAX_CHUNK) return NULL;
    if (stored > c->raw_room) {
        free(c->raw);
        c->raw_room = 0;
        if (!(c->raw = malloc(stored))) return NULL;
        c->raw_room = stored;
    }
    uint32_t skipped = 0;
    if (H5Dread_chunk(c->set, H5P_DEFAULT, at, &skipped, c->raw) < 0) return NULL;
    if (skipped) {
        *status = 1;
        return NULL;
    }
    size_t slot = oldest, size = c->n * c->width;
    if (c->n_keep < c->room) {
        slot = c->n_keep;
        if (!(c->keep[slot].data = malloc(size))) return NULL;
        c->n_keep++;
    }
    kept *k = &c->keep[slot];
    memset(k->at, 0xff, sizeof k->at); /* invalid until the chunk is complete */
    k->used = 0;
    if (libdeflate_zlib_decompress(c->inflate, c->raw, stored, c->shuffle ? c->shuffled : k->data, size, NULL) != LIBDEFLATE_SUCCESS)
        return NULL;
    if (c->shuffle) unshuffle(k->data, c->shuffled, c->n, c->width);
    memcpy(k->at, at, (size_t)c->ndims * sizeof *at);
    k->used = ++c->clock;
    return k->data;
}

#define CONVERT(name, T)                                                                                    \
    VECTORS static void name(const void *from, size_t n, const ens_rules *r, float *restrict out) {         \
        const T *restrict in = from;                                                                        \
        double m0 = r->missing[0], m1 = r->missing[1], m2 = r->missing[2], m3 = r->missing[3];              \
        double lo = r->lo, hi = r->hi, scale = r->scale, shift = r->shift, add = r->add;                    \
        for (size_t i = 0; i < n; i++) {                                                                    \
            double x = (double)in[i], y = x < 0 ? x + add : x;                                              \
            int bad = (x < lo) | (x > hi) | (x == m0) | (x == m1) | (x == m2) | (x == m3);                  \
            float v = (float)(y * scale + shift);                                                           \
            out[i] = bad ? NAN : v;                                                                         \
        }                                                                                                   \
    }

CONVERT(from_float, float)
CONVERT(from_double, double)
CONVERT(from_int8, int8_t)
CONVERT(from_int16, int16_t)
CONVERT(from_int32, int32_t)
CONVERT(from_uint8, uint8_t)
CONVERT(from_uint16, uint16_t)
CONVERT(from_uint32, uint32_t)

typedef void (*convert)(const void *, size_t, const ens_rules *, float *);

static convert converter(const ens_chunks *c) {
    if (c->class == H5T_FLOAT) return c->width == 4 ? from_float : from_double;
    switch (c->width) {
    case 1: return c->is_signed ? from_int8 : from_uint8;
    case 2: return c->is_signed ? from_int16 : from_uint16;
    default: return c->is_signed ? from_int32 : from_uint32;
    }
}

int ens_chunks_read(ens_chunks *c, int ndims, const size_t *start, const size_t *count, const ens_rules *rules, float *out) {
    ens_rules r = *rules;
    for (int i = r.n_missing; i < ENS_MAX_MISSING; i++) r.missing[i] = NAN; /* NaN equals no value */
    if (ndims != c->ndims) return 1;
    for (int d = 0; d < ndims; d++)
        if (count[d] < 1 || start[d] >= c->dims[d] || count[d] > c->dims[d] - start[d]) return 1;
    convert from = converter(c);
    hsize_t at[ENS_MAX_DIMS];
    for (int d = 0; d < ndims; d++) at[d] = start[d] / c->chunk[d] * c->chunk[d];
    for (;;) {
        int status;
        const unsigned char *data = fetch(c, at, &status);
        if (!data) return status;
        /* The overlap of chunk and slab, row by row. */
        size_t lo[ENS_MAX_DIMS], hi[ENS_MAX_DIMS], place[ENS_MAX_DIMS];
        for (int d = 0; d < ndims; d++) {
            size_t end = start[d] + count[d], chunk_end = at[d] + c->chunk[d];
            lo[d] = place[d] = start[d] > at[d] ? start[d] : at[d];
            hi[d] = end < chunk_end ? end : chunk_end;
        }
        int last = ndims - 1;
        for (;;) {
            size_t in = 0, to = 0;
            for (int d = 0; d < ndims; d++) {
                in = in * c->chunk[d] + (place[d] - at[d]);
                to = to * count[d] + (place[d] - start[d]);
            }
            from(data + in * c->width, hi[last] - lo[last], &r, out + to);
            int d = last - 1;
            for (; d >= 0; d--) {
                if (++place[d] < hi[d]) break;
                place[d] = lo[d];
            }
            if (d < 0) break;
        }
        int d = last;
        for (; d >= 0; d--) {
            at[d] += c->chunk[d];
            if (at[d] < start[d] + count[d]) break;
            at[d] = start[d] / c->chunk[d] * c->chunk[d];
        }
        if (d < 0) return 0;
    }
}
