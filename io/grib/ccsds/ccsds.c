#include "ccsds.h"

#include <libaec.h>

#include "../simplepack/convert.h"

/* Integers are decoded and converted in small buffers that stay in the CPU cache. */
#define PIECE (64 << 10)

VECTORS static void from8(const uint8_t *restrict x, double binary, double reference, double decimal,
                          float *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = VALUE((int32_t)x[i]);
}

VECTORS static void from16(const uint16_t *restrict x, double binary, double reference, double decimal,
                           float *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = VALUE((int32_t)x[i]);
}

VECTORS static void from32(const uint32_t *restrict x, double binary, double reference, double decimal,
                           float *restrict out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = VALUE((int64_t)x[i]);
}

int ens_ccsds(const uint8_t *data, size_t bytes, int bits, int flags, int block, int interval, double binary,
              double reference, double decimal, float *out, size_t n, size_t *done) {
    union {
        uint8_t x8[PIECE];
        uint16_t x16[PIECE / 2];
        uint32_t x32[PIECE / 4];
    } piece;
    struct aec_stream s = {0};
    size_t width = bits <= 8 ? 1 : bits <= 16 ? 2 : 4;

    /* Integers in native byte order; those of three bytes are stored in four. */
    s.flags = (unsigned)flags & ~(unsigned)(AEC_DATA_3BYTE | AEC_DATA_MSB);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) s.flags |= AEC_DATA_MSB;
    s.bits_per_sample = (unsigned)bits;
    s.block_size = (unsigned)block;
    s.rsi = (unsigned)interval;
    s.next_in = data;
    s.avail_in = bytes;
    *done = 0;
    int status = aec_decode_init(&s);
    if (status != AEC_OK) return status;
    while (*done < n) {
        size_t want = n - *done < PIECE / width ? n - *done : PIECE / width;
        s.next_out = (unsigned char *)&piece;
        s.avail_out = want * width;
        status = aec_decode(&s, AEC_FLUSH);
        size_t got = want - s.avail_out / width;
        if (status != AEC_OK || got == 0) break;
        switch (width) {
        case 1: from8(piece.x8, binary, reference, decimal, out + *done, got); break;
        case 2: from16(piece.x16, binary, reference, decimal, out + *done, got); break;
        default: from32(piece.x32, binary, reference, decimal, out + *done, got);
        }
        *done += got;
    }
    aec_decode_end(&s);
    return status;
}
