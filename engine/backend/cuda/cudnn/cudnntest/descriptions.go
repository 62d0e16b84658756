// Package cudnntest has descriptions of GPUs for cuDNN, for tests on machines without
// one.
package cudnntest

// DeviceDescriptions are descriptions of GPUs in the format of cuDNN. Clocks, bus
// widths and sizes are those of NVIDIA's data sheets of the SXM modules and of the CUDA
// programming guide for their compute capabilities.
var DeviceDescriptions = map[string]string{
	"H100": `{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
"multiProcessorCount":132,"smCountOrigin":0,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
"reservedSharedMemoryPerBlock":1024,"oversizedSharedMemoryPerBlock":0,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,
"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85017493504,"smClockRateKHz":1980000,
"memClockRateKHz":2619000,"memoryBusWidth":5120,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,"driverVer":12090,"deviceName":"NVIDIA H100 80GB HBM3"}`,
	"A100": `{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
"multiProcessorCount":108,"smCountOrigin":0,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":166912,
"reservedSharedMemoryPerBlock":1024,"oversizedSharedMemoryPerBlock":0,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,
"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":84987740160,"smClockRateKHz":1410000,
"memClockRateKHz":1593000,"memoryBusWidth":5120,"l2CacheSize":41943040,"cudaDeviceId":0,"deviceVer":800,"driverVer":12090,"deviceName":"NVIDIA A100-SXM4-80GB"}`,
	"V100": `{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
"multiProcessorCount":80,"smCountOrigin":0,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":98304,
"reservedSharedMemoryPerBlock":0,"oversizedSharedMemoryPerBlock":0,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,
"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":34079637504,"smClockRateKHz":1530000,
"memClockRateKHz":877000,"memoryBusWidth":4096,"l2CacheSize":6291456,"cudaDeviceId":0,"deviceVer":700,"driverVer":12090,"deviceName":"Tesla V100-SXM2-32GB"}`,
}
