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
	Index   int    `json:"index"`
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Compute string `json:"compute"` // compute capability, "9.0"
	// Precisions are the precisions of a network (f16, bf16 …) whose products are made on matrix units.
	Precisions []string `json:"precisions"`
	TotalBytes uint64   `json:"total_bytes"`
	FreeBytes  uint64   `json:"free_bytes"`
	MIG        bool     `json:"mig"` // cut into instances
	Readings
}

// Readings are what changes from moment to moment; what a device does not tell is zero.
type Readings struct {
	UsedBytes          uint64   `json:"used_bytes"`    // by all processes, and by the driver
	Temperature        int      `json:"temperature_c"` // of the chip
	PowerW             float64  `json:"power_w"`
	PowerLimitW        float64  `json:"power_limit_w"` // beyond which clocks fall
	ClockMHz           int      `json:"clock_mhz"`     // of the multiprocessors
	MaxClockMHz        int      `json:"max_clock_mhz"`
	MemoryClockMHz     int      `json:"memory_clock_mhz"`
	UtilisationPercent int      `json:"busy_percent"` // of the time some kernel ran
	Throttled          []string `json:"throttled"`    // why clocks are lower than they could be: "power", "temperature" …
}
