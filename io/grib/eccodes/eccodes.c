#include "eccodes_ensemble.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last log message of ecCodes, which would otherwise go to stderr. Used by one thread. */
static char complaint[512];

static void keep(const grib_context* c, int level, const char* text) {
    (void)c;
    if (level == GRIB_LOG_ERROR || level == GRIB_LOG_FATAL) {
        snprintf(complaint, sizeof complaint, "%s", text);
    }
}

void ens_init(void) {
    codes_context_set_logging_proc(codes_context_get_default(), keep);
}

const char* ens_complaint(void) { return complaint; }

codes_handle* ens_open(const void* message, size_t length) {
    complaint[0] = 0;
    return codes_handle_new_from_message(codes_context_get_default(), message, length);
}

/* Outside of the range of float, so that no decoded value equals it. */
static const double missing_mark = 9.0e300;

int ens_values(codes_handle* h, size_t expected, float* out, size_t* found, size_t* missing, size_t* infinite) {
    static double* scratch = NULL;
    static size_t room = 0;
    size_t n = 0;
    int err = codes_get_size(h, "values", &n);
    if (err) return err;
    *found = n;
    if (n != expected) return 0;
    if (n > room) {
        double* grown = realloc(scratch, n * sizeof(double));
        if (!grown) return CODES_OUT_OF_MEMORY;
        scratch = grown;
        room = n;
    }
    if ((err = codes_set_double(h, "missingValue", missing_mark))) return err;
    if ((err = codes_get_double_array(h, "values", scratch, &n))) return err;
    *found = n;
    if (n != expected) return 0;
    *missing = 0;
    *infinite = 0;
    for (size_t i = 0; i < n; i++) {
        float v = (float)scratch[i];
        if (scratch[i] == missing_mark) {
            v = NAN;
            ++*missing;
        } else if (!isfinite(v)) {
            ++*infinite;
        }
        out[i] = v;
    }
    return 0;
}
