#ifndef ECCODES_ENSEMBLE_H
#define ECCODES_ENSEMBLE_H

#include <eccodes.h>
#include <stddef.h>

/* Sends the library's complaints to ens_complaint. */
void ens_init(void);
const char* ens_complaint(void);

/* A handle on a message in memory that outlives it; NULL if it is none. */
codes_handle* ens_open(const void* message, size_t length);

/* Decodes into out, which has room for expected floats, in stored order, missing
   values as NaN. *found differs from expected if nothing was decoded. */
int ens_values(codes_handle* h, size_t expected, float* out, size_t* found, size_t* missing, size_t* infinite);

#endif
