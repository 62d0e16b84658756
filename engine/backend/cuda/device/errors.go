package device

import "errors"

// ErrOutOfMemory marks that the memory of the device does not suffice.
var ErrOutOfMemory = errors.New("out of device memory")

// ErrNoDevice marks that no GPU can be used: the driver is missing or too old, or there
// is no such device.
var ErrNoDevice = errors.New("no usable GPU")

// ErrLost marks that the device accepts no more work of this process, because earlier
// work or the device itself failed. Only a new process can use it again.
var ErrLost = errors.New("the GPU accepts no more work of this process")
