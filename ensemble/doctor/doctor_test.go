package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// TestDoctorWithoutDecoder: without the decoding program the report is complete, and states what is missing, the
// consequence and the remedy.
func TestDoctorWithoutDecoder(t *testing.T) {
	t.Setenv(decode.ProgramEnv, filepath.Join(t.TempDir(), "none"))
	r, err := Examine(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Sections().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ensemble-decode", "missing; it would enable: reading and writing GRIB and NetCDF", "correct or unset " + decode.ProgramEnv,
		"writable, file locks work", "oneDNN", "Open MPI", "MPICH", "cuDNN", "GPU", "GiB available"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for _, l := range r.Libraries {
		if l.Enables == "" || l.Found && l.Why != "" || !l.Found && l.Why == "" {
			t.Errorf("%+v: want what it adds, and a reason exactly if it is missing", l)
		}
	}
	if r.CPU.Cores < 1 || r.Memory.TotalBytes < r.Memory.AvailableBytes || r.Disk.FreeBytes <= 0 {
		t.Errorf("%+v %+v %+v", r.CPU, r.Memory, r.Disk)
	}
}

// TestMemory: the limit of a control group is used if it is below the memory of the machine.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:   4194304 kB\n")
	info := filepath.Join(dir, "meminfo")
	if m := memory(info, dir); m != (Memory{8 << 30, 4 << 30}) {
		t.Errorf("no control group: %+v", m)
	}
	put("memory.max", "max\n")
	if m := memory(info, dir); m != (Memory{8 << 30, 4 << 30}) {
		t.Errorf("no limit: %+v", m)
	}
	put("memory.max", "2147483648\n")
	put("memory.current", "1073741824\n")
	if m := memory(info, dir); m != (Memory{2 << 30, 1 << 30}) {
		t.Errorf("limit of 2 GiB, half used: %+v", m)
	}
}

func TestDiskReadOnly(t *testing.T) {
	d := disk(filepath.Join(t.TempDir(), "none"))
	if d.Writable || d.Problem == "" {
		t.Errorf("a folder that does not exist: %+v", d)
	}
}

// TestDoctorGPU: the report contains the sensor readings of a GPU.
func TestDoctorGPU(t *testing.T) {
	two, nccl := make([]cuda.Device, 2), []Library{{Name: "NCCL"}}
	for want, got := range map[string]string{"": transportOf(two[:1], nccl), "host memory, because NCCL is missing": transportOf(two, nccl),
		"NCCL between GPUs with one rank each; host memory if ranks share a GPU": transportOf(two, []Library{{Name: "NCCL", Found: true}})} {
		if got != want {
			t.Errorf("ranks on GPUs: got %q, want %q", got, want)
		}
	}
	r := Report{GPU: GPU{Found: true, Driver: "570.1", CUDA: "12.8", Devices: []cuda.Device{{Name: "NVIDIA X", Compute: "7.0", Precisions: []string{"f16"},
		TotalBytes: 80 << 30, FreeBytes: 70 << 30, Readings: cuda.Readings{UsedBytes: 10 << 30, Temperature: 61, PowerW: 512.3, PowerLimitW: 700,
			ClockMHz: 1755, MaxClockMHz: 1980, MemoryClockMHz: 2619, UtilisationPercent: 97, Throttled: []string{"power", "temperature"}}}}}}
	var b strings.Builder
	if err := r.Sections().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"80.0 GiB, 70.0 GiB free, 10.0 GiB used", "1755 of 1980 MHz, memory 2619 MHz, 61 °C, 512 of 700 W, 97 % busy",
		"matrix units for train.precision: f16", "clocks are throttled by: power, temperature"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
