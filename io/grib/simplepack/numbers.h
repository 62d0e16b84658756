#include <stddef.h>
#include <stdint.h>

/* Unpacks rows of integers X of 1 to 32 bits, most significant bit first, to (X*binary + reference)*decimal.
 * The computation is in double precision; product and sum are rounded separately, as in ecCodes. Rows begin stride
 * integers apart, at whole bytes; their values begin step apart. data must hold all bits. */
void ens_numbers(const uint8_t *data, size_t bytes, int bits, double binary, double reference, double decimal,
                 float *out, size_t rows, size_t columns, size_t stride, ptrdiff_t step);
