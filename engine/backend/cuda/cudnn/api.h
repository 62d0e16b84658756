// What this package uses of cuDNN 9, by NVIDIA's names: functions with their types, and
// values. The library is opened at run time and its headers are not needed, so they are
// written down here once; a test compares each with the headers.
#ifndef ENSEMBLE_CUDNN_API_H
#define ENSEMBLE_CUDNN_API_H

#include <stddef.h>
#include <stdint.h>

// Types by their size. The test puts NVIDIA's in their place.
#ifndef ENSEMBLE_VENDOR_TYPES
typedef int32_t cudnnStatus_t;
typedef int32_t cudnnBackendDescriptorType_t;
typedef int32_t cudnnBackendAttributeName_t;
typedef int32_t cudnnBackendAttributeType_t;
typedef void *cudnnBackendDescriptor_t;
typedef void *cudnnHandle_t;
typedef void *cudaStream_t;
#endif

#define CUDNN_FUNCTIONS(X)                                                                     \
	X(size_t, cudnnGetVersion, (void))                                                     \
	X(const char *, cudnnGetErrorString, (cudnnStatus_t))                                  \
	X(void, cudnnGetLastErrorString, (char *, size_t))                                     \
	X(cudnnStatus_t, cudnnCreate, (cudnnHandle_t *))                                       \
	X(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t))                                        \
	X(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t, cudaStream_t))                        \
	X(cudnnStatus_t, cudnnBackendCreateDescriptor,                                         \
	  (cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *))                          \
	X(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t))            \
	X(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t))                     \
	X(cudnnStatus_t, cudnnBackendSetAttribute,                                             \
	  (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, \
	   int64_t, const void *))                                                             \
	X(cudnnStatus_t, cudnnBackendGetAttribute,                                             \
	  (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, \
	   int64_t, int64_t *, void *))                                                        \
	X(cudnnStatus_t, cudnnBackendExecute,                                                  \
	  (cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t))

#define CUDNN_VALUES(X)                                                    \
	X(CUDNN_DATA_FLOAT, 0)                                             \
	X(CUDNN_DATA_HALF, 2)                                              \
	X(CUDNN_DATA_BFLOAT16, 9)                                          \
	X(CUDNN_CROSS_CORRELATION, 1)                                      \
	X(CUDNN_PROPAGATE_NAN, 1)                                          \
	X(CUDNN_POINTWISE_ADD, 0)                                          \
	X(CUDNN_POINTWISE_RELU_FWD, 100)                                   \
	X(CUDNN_HEUR_MODE_B, 1)                                            \
	X(CUDNN_HEUR_MODE_FALLBACK, 2)                                     \
	X(CUDNN_HEUR_MODE_A, 3)                                            \
	X(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0)                             \
	X(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                     \
	X(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)             \
	X(CUDNN_NUMERICAL_NOTE_FFT, 3)                                     \
	X(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                        \
	X(CUDNN_NUMERICAL_NOTE_WINOGRAD, 5)                                \
	X(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, 6)                       \
	X(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, 7)                       \
	X(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, 8)                     \
	X(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, 9)                         \
	X(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, 0)                      \
	X(CUDNN_TYPE_HANDLE, 0)                                            \
	X(CUDNN_TYPE_DATA_TYPE, 1)                                         \
	X(CUDNN_TYPE_BOOLEAN, 2)                                           \
	X(CUDNN_TYPE_INT64, 3)                                             \
	X(CUDNN_TYPE_FLOAT, 4)                                             \
	X(CUDNN_TYPE_VOID_PTR, 6)                                          \
	X(CUDNN_TYPE_CONVOLUTION_MODE, 7)                                  \
	X(CUDNN_TYPE_HEUR_MODE, 8)                                         \
	X(CUDNN_TYPE_KNOB_TYPE, 9)                                         \
	X(CUDNN_TYPE_NAN_PROPOGATION, 10)                                  \
	X(CUDNN_TYPE_NUMERICAL_NOTE, 11)                                   \
	X(CUDNN_TYPE_POINTWISE_MODE, 14)                                   \
	X(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                               \
	X(CUDNN_TYPE_BEHAVIOR_NOTE, 19)                                    \
	X(CUDNN_TYPE_CHAR, 24)                                             \
	X(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0)                           \
	X(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1)                         \
	X(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                              \
	X(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                           \
	X(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                          \
	X(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                      \
	X(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, 7)                         \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)      \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11) \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12) \
	X(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13)                \
	X(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                     \
	X(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                       \
	X(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                             \
	X(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 38)                         \
	X(CUDNN_ATTR_POINTWISE_MODE, 0)                                    \
	X(CUDNN_ATTR_POINTWISE_MATH_PREC, 1)                               \
	X(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, 2)                         \
	X(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100)                           \
	X(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101)                           \
	X(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102)                           \
	X(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103)                      \
	X(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104)                       \
	X(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105)                        \
	X(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                        \
	X(CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                 \
	X(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                      \
	X(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                              \
	X(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204)                           \
	X(CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                \
	X(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, 302)                          \
	X(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                           \
	X(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                    \
	X(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                   \
	X(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 405)              \
	X(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407)                       \
	X(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 600)                           \
	X(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 601)                          \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)             \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)              \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)         \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                 \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                 \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                 \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)            \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)             \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)        \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)               \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)               \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)          \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)           \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)      \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)             \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)              \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)             \
	X(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750)               \
	X(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 751)                       \
	X(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 752)                       \
	X(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 753)                       \
	X(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                           \
	X(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                              \
	X(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                           \
	X(CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                \
	X(CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                               \
	X(CUDNN_ATTR_TENSOR_STRIDES, 903)                                  \
	X(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                \
	X(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 907)                               \
	X(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                        \
	X(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                     \
	X(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                         \
	X(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 1300)                         \
	X(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1301)                            \
	X(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)                          \
	X(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, 1305)                           \
	X(CUDNN_ATTR_ENGINE_DEVICEPROP, 1307)                              \
	X(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)

#ifndef ENSEMBLE_VENDOR_TYPES
enum {
#define X(name, value) name = value,
	CUDNN_VALUES(X)
#undef X
};
#endif

#endif
