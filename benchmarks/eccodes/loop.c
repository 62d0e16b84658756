/* What users of ecCodes in C have: one thread, message by message, values as doubles.
 *
 *   loop read FILE ROUNDS            a JSON line with the seconds of each round
 *   loop make FILE COUNT NI NJ BITS  COUNT fields of simple packing: members, steps, levels and variables vary
 */
#include <eccodes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code = (call);                                                                         \
        if (code) {                                                                                \
            fprintf(stderr, "line %d: %s\n", __LINE__, codes_get_error_message(code));             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static FILE *file(const char *path, const char *mode) {
    FILE *f = fopen(path, mode);
    if (!f) {
        perror(path);
        exit(1);
    }
    return f;
}

/* One pass over a file; the sum of the last values keeps the decoding from being left out. */
static double pass(const char *path, long *fields, long *points) {
    static double *values = NULL;
    static size_t room = 0;
    double sum = 0;
    FILE *f = file(path, "rb");
    int code = 0;
    codes_handle *h;
    *fields = *points = 0;
    while ((h = codes_handle_new_from_file(NULL, f, PRODUCT_GRIB, &code))) {
        size_t n;
        CHECK(codes_get_size(h, "values", &n));
        if (n > room) {
            values = realloc(values, n * sizeof *values);
            room = n;
        }
        CHECK(codes_get_double_array(h, "values", values, &n));
        sum += values[n - 1];
        *points += n;
        ++*fields;
        codes_handle_delete(h);
    }
    CHECK(code);
    fclose(f);
    return sum;
}

static void read_file(const char *path, int rounds) {
    long fields, points;
    double sum = pass(path, &fields, &points); /* warms the cache, loads the definitions */
    printf("{\"fields\": %ld, \"points\": %ld, \"sum\": %.17g, \"seconds\": [", fields, points, sum);
    for (int i = 0; i < rounds; i++) {
        double begin = now();
        pass(path, &fields, &points);
        printf("%s%.6f", i ? ", " : "", now() - begin);
    }
    printf("]}\n");
}

static void make_file(const char *path, long count, long ni, long nj, long bits) {
    static const long variables[2][2] = {{0, 0}, {2, 2}}; /* category and number: temperature, wind to the east */
    static const long levels[5] = {1000, 850, 700, 500, 250};
    FILE *f = file(path, "wb");
    double *x = malloc(sizeof *x * (size_t)(ni * nj));
    codes_handle *h = codes_handle_new_from_samples(NULL, "regular_ll_pl_grib2");
    if (!h || !x) exit(1);
    CHECK(codes_set_long(h, "Ni", ni));
    CHECK(codes_set_long(h, "Nj", nj));
    CHECK(codes_set_double(h, "latitudeOfFirstGridPointInDegrees", 90));
    CHECK(codes_set_double(h, "latitudeOfLastGridPointInDegrees", -90));
    CHECK(codes_set_double(h, "longitudeOfFirstGridPointInDegrees", 0));
    CHECK(codes_set_double(h, "longitudeOfLastGridPointInDegrees", 360 - 360.0 / ni));
    CHECK(codes_set_double(h, "iDirectionIncrementInDegrees", 360.0 / ni));
    CHECK(codes_set_double(h, "jDirectionIncrementInDegrees", 180.0 / (nj - 1)));
    CHECK(codes_set_long(h, "productDefinitionTemplateNumber", 1));
    CHECK(codes_set_long(h, "typeOfProcessedData", 4));
    CHECK(codes_set_long(h, "typeOfEnsembleForecast", 3));
    CHECK(codes_set_long(h, "numberOfForecastsInEnsemble", 50));
    CHECK(codes_set_long(h, "dataDate", 20200101));
    CHECK(codes_set_long(h, "bitsPerValue", bits));
    for (long k = 0; k < count; k++) { /* members of a variable lie together, as centres write them */
        long member = k % 50, variable = k / 50 % 2, level = k / 100 % 5, step = k / 500;
        CHECK(codes_set_long(h, "parameterCategory", variables[variable][0]));
        CHECK(codes_set_long(h, "parameterNumber", variables[variable][1]));
        CHECK(codes_set_long(h, "level", levels[level]));
        CHECK(codes_set_long(h, "perturbationNumber", member));
        CHECK(codes_set_long(h, "step", 6 * step));
        for (long j = 0; j < nj; j++)
            for (long i = 0; i < ni; i++) x[j * ni + i] = 280 + 20 * cos(0.1 * j + 0.01 * k) + 5 * sin(0.2 * i + member);
        CHECK(codes_set_double_array(h, "values", x, (size_t)(ni * nj)));
        const void *message;
        size_t bytes;
        CHECK(codes_get_message(h, &message, &bytes));
        if (fwrite(message, 1, bytes, f) != bytes) exit(1);
    }
    if (fclose(f)) exit(1);
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "read")) read_file(argv[2], atoi(argv[3]));
    else if (argc == 7 && !strcmp(argv[1], "make")) make_file(argv[2], atol(argv[3]), atol(argv[4]), atol(argv[5]), atol(argv[6]));
    else return 64;
    return 0;
}
