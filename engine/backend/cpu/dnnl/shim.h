// One wrapper around the C interface of oneDNN 2.x and 3.x, whose functions
// are found in an opened library: nothing here links against it. The headers
// decide at compile time which of the two interfaces is spoken; their major
// version must be that of the library opened (ens_dnnl_major).
#ifndef ENS_DNNL_SHIM_H
#define ENS_DNNL_SHIM_H
#include <stddef.h>

enum { ENS_FORWARD, ENS_BACKWARD_DATA, ENS_BACKWARD_WEIGHTS };
enum { ENS_LAYOUT_ANY, ENS_LAYOUT_CHANNELS_LAST, ENS_LAYOUT_PLAIN };
enum { ENS_ALG_DIRECT, ENS_ALG_WINOGRAD };

// The description of one pass of one convolution; plain numbers only.
typedef struct {
	int pass, layout, alg;
	int bias, inference, threads;
	int nsp;                      // spatial axes: 2 or 3
	long n, cin, cout;
	long in[3], out[3], kernel[3], stride[3], dilation[3], pad_lo[3], pad_hi[3];
} ens_conv_spec;

typedef struct ens_conv ens_conv; // prepared pass; owned by C until closed

int ens_dnnl_major(void);
int ens_dnnl_header_version(int *minor, int *patch);

// Resolves every function from the handle. Returns 0, or 1 with the missing
// name in name.
int ens_dnnl_bind(void *handle, const char **name);
int ens_dnnl_version(int *major, int *minor, int *patch);
void ens_dnnl_threads(int n);
int ens_dnnl_max_threads(void);

// Each returns the status of oneDNN: 0 is success. *what names the call that failed.
int ens_conv_new(const ens_conv_spec *s, ens_conv **out, const char **what);
size_t ens_conv_scratch(const ens_conv *c);
const char *ens_conv_impl(const ens_conv *c);
int ens_conv_reorders(const ens_conv *c);
int ens_conv_run(ens_conv *c, void *src, void *wei, void *bias, void *dst, void *scratch);
void ens_conv_close(ens_conv *c);

// Square matrix product in plain float32, row major: the reference rate of the machine.
int ens_sgemm(long m, long n, long k, const float *a, const float *b, float *c);
#endif
