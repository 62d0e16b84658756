package cuda

import "errors"

// ErrNoDriver marks that the NVIDIA driver is missing or does not respond.
var ErrNoDriver = errors.New("no NVIDIA driver")

// Inventory describes the driver and the GPUs of a machine.
type Inventory struct {
	Driver  string   `json:"driver"` // version, such as "570.86.15"
	CUDA    string   `json:"cuda"`   // newest CUDA version that the driver supports, such as "12.8"
	Devices []Device `json:"devices"`
}

// Device describes one GPU.
type Device struct {
	Index   int    `json:"index"`
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Compute string `json:"compute"` // compute capability, such as "9.0"
	// Precisions are the precisions of a network (f16, bf16 …) for which the GPU has
	// tensor cores.
	Precisions []string `json:"precisions"`
	TotalBytes uint64   `json:"total_bytes"`
	FreeBytes  uint64   `json:"free_bytes"`
	MIG        bool     `json:"mig"` // divided into instances (Multi-Instance GPU)
	Readings
}

// Readings are the current values of a GPU. A value that the GPU does not report is
// zero.
type Readings struct {
	UsedBytes          uint64   `json:"used_bytes"`    // by all processes and the driver
	Temperature        int      `json:"temperature_c"` // of the chip, °C
	PowerW             float64  `json:"power_w"`       // W
	PowerLimitW        float64  `json:"power_limit_w"` // limit above which clocks are reduced, W
	ClockMHz           int      `json:"clock_mhz"`     // of the multiprocessors, MHz
	MaxClockMHz        int      `json:"max_clock_mhz"`
	MemoryClockMHz     int      `json:"memory_clock_mhz"`
	UtilisationPercent int      `json:"busy_percent"` // share of time in which a kernel ran, %
	Throttled          []string `json:"throttled"`    // reasons for reduced clocks: "power", "temperature" …
}
