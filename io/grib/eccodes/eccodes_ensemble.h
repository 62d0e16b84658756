#ifndef ECCODES_ENSEMBLE_H
#define ECCODES_ENSEMBLE_H

#include <eccodes.h>
#include <stddef.h>

/* Redirects log messages of ecCodes to ens_complaint. */
void ens_init(void);
const char* ens_complaint(void);

/* Returns a handle of a message in memory, which must outlive the handle; NULL if it is not a message. */
codes_handle* ens_open(const void* message, size_t length);

/* Decodes into out, which has space for expected floats, in storage order, missing
   values as NaN. *found differs from expected if nothing was decoded. */
int ens_values(codes_handle* h, size_t expected, float* out, size_t* found, size_t* missing, size_t* infinite);

#endif
