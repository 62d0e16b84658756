#include <stddef.h>
#include <stdint.h>

/* Decodes up to n numbers X of 1 to 32 bits, coded by CCSDS 121.0-B, into
 * (X*binary + reference)*decimal, computed as ens_numbers does. *done is how many there were;
 * returns libaec's status. */
int ens_ccsds(const uint8_t *data, size_t bytes, int bits, int flags, int block, int interval, double binary,
              double reference, double decimal, float *out, size_t n, size_t *done);
