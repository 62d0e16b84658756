package cuda

import "errors"

// ErrNoDriver marks that the NVIDIA driver is not there or does not answer.
var ErrNoDriver = errors.New("no NVIDIA driver")

// Inventory is what the driver says of itself and of the GPUs.
type Inventory struct {
	Driver  string   `json:"driver"` // "570.86.15"
	CUDA    string   `json:"cuda"`   // newest CUDA version that the driver serves, "12.8"
	Devices []Device `json:"devices"`
}

// Device is one GPU.
type Device struct {
	Index      int    `json:"index"`
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	Compute    string `json:"compute"` // compute capability, "9.0"
	TotalBytes uint64 `json:"total_bytes"`
	FreeBytes  uint64 `json:"free_bytes"`
	MIG        bool   `json:"mig"` // cut into instances
}
