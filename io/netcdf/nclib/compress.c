#include <libdeflate.h>
#include <stddef.h>

/* compress2 stands here in place of zlib's, which HDF5 deflates chunks by: a program's own function is taken before that
 * of a library. The format is the same, and it is made two to three times as fast. */

enum { LEVELS = 13, DEFAULT_LEVEL = 6, ZLIB_OK = 0, ZLIB_MEM_ERROR = -4, ZLIB_BUF_ERROR = -5 };

int compress2(unsigned char *out, unsigned long *size, const unsigned char *in, unsigned long bytes, int level) {
    static struct libdeflate_compressor *of[LEVELS];
    if (level < 0 || level >= LEVELS) level = DEFAULT_LEVEL;
    if (!of[level]) of[level] = libdeflate_alloc_compressor(level);
    if (!of[level]) return ZLIB_MEM_ERROR;
    size_t n = libdeflate_zlib_compress(of[level], in, bytes, out, *size);
    if (n == 0) return ZLIB_BUF_ERROR; /* HDF5 stores the chunk as it is */
    *size = n;
    return ZLIB_OK;
}
