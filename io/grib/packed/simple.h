#include <stddef.h>
#include <stdint.h>

/* Unpacks n numbers X of 1 to 32 bits, the highest bit first, into (X*binary + reference)*decimal,
 * computed in double precision, product and sum each rounded, as ecCodes does. data has all bits. */
void ens_simple(const uint8_t *data, size_t bytes, int bits, double binary, double reference, double decimal,
                float *out, size_t n);
