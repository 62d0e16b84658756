#include "wide.cuh"
#include "formulas.cuh"
// Chains of elementwise operations: the backend appends the generated kernel of each.
