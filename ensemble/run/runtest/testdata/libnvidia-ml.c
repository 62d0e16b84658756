// A driver's library that knows one GPU, GPU-1, while the environment has FAKE_NVML: what
// cuda.Watch calls, with NVIDIA's prototypes (nvml.h).
#include <stdlib.h>
#include <string.h>

enum { ok = 0, driver_not_loaded = 9, not_found = 6 };
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned gpu, memory; } utilization;

int nvmlInit(void) { return getenv("FAKE_NVML") ? ok : driver_not_loaded; }
int nvmlInit_v2(void) { return nvmlInit(); }
int nvmlShutdown(void) { return ok; }
const char *nvmlErrorString(int code) { return code == not_found ? "Not Found" : "Error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned room) { return strncpy(text, "570.86.15", room), ok; }
int nvmlSystemGetCudaDriverVersion(int *version) { return *version = 12080, ok; }
int nvmlDeviceGetHandleByUUID(const char *id, void **device) { return *device = "a GPU", strcmp(id, "GPU-1") ? not_found : ok; }
int nvmlDeviceGetMemoryInfo(void *device, memory *m) { return m->total = 80ull << 30, m->used = 10ull << 30, m->free = 70ull << 30, ok; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *t) { return *t = 61, ok; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) { return *mw = 512300, ok; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) { return *mw = 700000, ok; }
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) { return *mhz = kind == 1 ? 1755 : 2619, ok; }
int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned *mhz) { return *mhz = 1980, ok; }
int nvmlDeviceGetUtilizationRates(void *device, utilization *u) { return u->gpu = 97, ok; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *why) { return *why = 0x44, ok; }
