package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// TestFault33ControlGroup: the lowest limit of the control group of the process and of the groups above it is used, if it is below
// the memory of the machine.
func TestFault33ControlGroup(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "cgroup")
	check := func(what string, want Memory) {
		t.Helper()
		if m := memory(filepath.Join(dir, "meminfo"), controlGroups(self, dir)); m != want {
			t.Errorf("%s: %+v, want %+v", what, m, want)
		}
	}
	put("meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:   4194304 kB\n")
	check("no control group", Memory{8 << 30, 4 << 30})
	put("memory.max", "max\n")
	check("no limit", Memory{8 << 30, 4 << 30})
	put("memory.max", "6442450944\n")
	put("memory.current", "5368709120\n")
	check("limit of 6 GiB on the container", Memory{6 << 30, 1 << 30})
	put("system.slice/memory.max", "3221225472\n")
	put("system.slice/memory.current", "1073741824\n")
	put("system.slice/forecast.service/memory.max", "2147483648\n")
	put("system.slice/forecast.service/memory.current", "1610612736\n")
	check("groups of others", Memory{6 << 30, 1 << 30})
	put("cgroup", "4:memory:/other\n0::/system.slice/forecast.service\n")
	check("limit of 2 GiB on the service", Memory{2 << 30, 512 << 20})
	put("system.slice/forecast.service/memory.max", "max\n")
	check("limit of 3 GiB on the slice", Memory{3 << 30, 1 << 30})
}

// inGroup is an environment variable with which this test prints the memory.
const inGroup = "ENSEMBLE_TEST_IN_GROUP"

// TestFault33RealControlGroup: a process in a control group with a limit sees that limit.
func TestFault33RealControlGroup(t *testing.T) {
	if os.Getenv(inGroup) != "" {
		fmt.Println("total", SystemMemory().TotalBytes)
		return
	}
	groups := controlGroups("/proc/self/cgroup", "/sys/fs/cgroup")
	group := filepath.Join(groups[min(1, len(groups)-1)], fmt.Sprintf("ensemble-test-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("skipped: no control group can be made: ", err)
	}
	defer os.Remove(group)
	f, err := os.OpenFile(filepath.Join(group, "memory.max"), os.O_WRONLY, 0)
	if err != nil {
		t.Skip("skipped: the control group cannot limit memory: ", err)
	}
	if _, err := f.WriteString("1073741824"); errors.Join(err, f.Close()) != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$1" -test.run '^TestFault33RealControlGroup$'`, group, os.Args[0])
	cmd.Env = append(os.Environ(), inGroup+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "total 1073741824\n") {
		t.Errorf("%v: %s", err, out)
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
