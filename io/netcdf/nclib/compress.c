#include <libdeflate.h>
#include <stddef.h>

/* compress2 replaces the function of zlib, with which HDF5 deflates chunks: a symbol of the program has precedence over
 * one of a library. libdeflate writes the same format two to three times as fast. */

enum { LEVELS = 13, DEFAULT_LEVEL = 6, ZLIB_OK = 0, ZLIB_MEM_ERROR = -4, ZLIB_BUF_ERROR = -5 };

int compress2(unsigned char *out, unsigned long *size, const unsigned char *in, unsigned long bytes, int level) {
    static struct libdeflate_compressor *of[LEVELS];
    if (level < 0 || level >= LEVELS) level = DEFAULT_LEVEL;
    if (!of[level]) of[level] = libdeflate_alloc_compressor(level);
    if (!of[level]) return ZLIB_MEM_ERROR;
    size_t n = libdeflate_zlib_compress(of[level], in, bytes, out, *size);
    if (n == 0) return ZLIB_BUF_ERROR; /* HDF5 then stores the chunk uncompressed */
    *size = n;
    return ZLIB_OK;
}
