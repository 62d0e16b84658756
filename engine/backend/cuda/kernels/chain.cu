#include "wide.cuh"
#include "formulas.cuh"
// Chains of elementwise operations: the program writes the kernel of each behind this.
