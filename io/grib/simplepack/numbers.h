#include <stddef.h>
#include <stdint.h>

/* Unpacks rows of numbers X of 1 to 32 bits, the highest bit first, into (X*binary + reference)*decimal,
 * computed in double precision, product and sum each rounded, as ecCodes does. Rows begin a stride of
 * numbers, which are whole bytes, apart, and their values a step. data has all bits. */
void ens_numbers(const uint8_t *data, size_t bytes, int bits, double binary, double reference, double decimal,
                 float *out, size_t rows, size_t columns, size_t stride, ptrdiff_t step);
