#include <stddef.h>
#include <stdint.h>

/* Decodes up to n integers X of 1 to 32 bits, compressed by CCSDS 121.0-B, and writes
 * (X*binary + reference)*decimal, computed as in ens_numbers. *done is the number of values.
 * Returns the status of libaec. */
int ens_ccsds(const uint8_t *data, size_t bytes, int bits, int flags, int block, int interval, double binary,
              double reference, double decimal, float *out, size_t n, size_t *done);
