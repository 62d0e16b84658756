//go:build cgo

#include "numbers.h"

#include <string.h>

#include "convert.h"

VECTORS static void eight(const uint8_t *restrict data, double binary, double reference, double decimal,
                          float *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = VALUE((int32_t)data[i]);
}

VECTORS static void sixteen(const uint8_t *restrict data, double binary, double reference, double decimal,
                            float *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, data + 2 * i, sizeof x);
        out[i] = VALUE((int32_t)__builtin_bswap16(x));
    }
}

/* Loads 64 bits at a byte, most significant byte first. */
static inline uint64_t word(const uint8_t *at) {
    uint64_t w;
    memcpy(&w, at, sizeof w);
    return __builtin_bswap64(w);
}

/* Eight integers of b bits take b bytes, so the shifts repeat after eight. */
VECTORS static size_t others(const uint8_t *restrict data, size_t bytes, int bits, double binary, double reference,
                             double decimal, float *restrict out, size_t n) {
    size_t done = 0;
    while (done + 8 <= n && done / 8 * (size_t)bits + (size_t)bits + 8 <= bytes) {
        const uint8_t *from = data + done / 8 * (size_t)bits;
        for (int k = 0; k < 8; k++) {
            int at = k * bits;
            out[done + k] = VALUE((int64_t)(word(from + (at >> 3)) << (at & 7) >> (64 - bits)));
        }
        done += 8;
    }
    return done;
}

static void numbers(const uint8_t *data, size_t bytes, int bits, double binary, double reference, double decimal,
                float *out, size_t n) {
    size_t done = 0;
    switch (bits) {
    case 8: eight(data, binary, reference, decimal, out, n); return;
    case 16: sixteen(data, binary, reference, decimal, out, n); return;
    default: done = others(data, bytes, bits, binary, reference, decimal, out, n);
    }
    for (size_t i = done; i < n; i++) { /* near the end, byte by byte, to stay inside of data */
        uint64_t x = 0;
        size_t first = i * (size_t)bits, end = first + (size_t)bits;
        for (size_t b = first >> 3; b < (end + 7) >> 3; b++) x = x << 8 | data[b];
        x = (x >> (7 & (8 - (end & 7)))) & (((uint64_t)1 << bits) - 1);
        out[i] = VALUE((int64_t)x);
    }
}

void ens_numbers(const uint8_t *data, size_t bytes, int bits, double binary, double reference, double decimal,
                 float *out, size_t rows, size_t columns, size_t stride, ptrdiff_t step) {
    for (size_t j = 0; j < rows; j++) {
        size_t at = j * stride * (size_t)bits / 8;
        numbers(data + at, bytes - at, bits, binary, reference, decimal, out + (ptrdiff_t)j * step, columns);
    }
}
