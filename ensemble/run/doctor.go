package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// DoctorReport is what `ensemble doctor` finds on a machine.
type DoctorReport struct {
	Program   ProgramFound   `json:"program"`
	CPU       CPUFound       `json:"cpu"`
	Memory    MemoryFound    `json:"memory"`
	Disk      DiskFound      `json:"disk"`
	Libraries []LibraryFound `json:"libraries"`
	GPU       GPUFound       `json:"gpu"`
}

// ProgramFound describes this build.
type ProgramFound struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// CPUFound describes the processor.
type CPUFound struct {
	Model    string   `json:"model"`
	Cores    int      `json:"cores"`
	Features []string `json:"features"`
}

// MemoryFound is the memory that this process can use.
type MemoryFound struct {
	TotalBytes     int64 `json:"total_bytes"`
	AvailableBytes int64 `json:"available_bytes"`
}

// DiskFound describes the file system that a run would write to.
type DiskFound struct {
	Dir       string `json:"dir"`
	FreeBytes int64  `json:"free_bytes"`
	Writable  bool   `json:"writable"`
	Locks     bool   `json:"file_locks"`
	Problem   string `json:"problem,omitempty"`
}

// LibraryFound is one library that is opened at run time, or linked by the decoding
// program.
type LibraryFound struct {
	Name    string `json:"name"`
	Found   bool   `json:"found"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path,omitempty"`
	Adds    string `json:"adds"`          // what it adds to the program
	Why     string `json:"why,omitempty"` // it is missing
	Fix     string `json:"fix,omitempty"`
}

// GPUFound is what the NVIDIA driver says.
type GPUFound struct {
	Found   bool          `json:"found"`
	Driver  string        `json:"driver,omitempty"`
	CUDA    string        `json:"cuda,omitempty"`
	Devices []cuda.Device `json:"devices"`
	Links   string        `json:"links,omitempty"` // what ranks on several of them exchange halos and gradients by
	Adds    string        `json:"adds"`
	Why     string        `json:"why,omitempty"`
}

// Doctor looks at the machine: processor, memory, the disk under dir, libraries and
// GPUs, and says what each thing that is missing would add.
//
// Errors: only ctx.Err(); that something is missing is an answer.
func Doctor(ctx context.Context, dir string) (*DoctorReport, error) {
	cpu := cpuinfo.Read()
	r := &DoctorReport{
		Program: thisProgram(),
		CPU:     CPUFound{cpu.Model, cpu.Cores, cpu.Features},
		Memory:  memory("/proc/meminfo", "/sys/fs/cgroup"),
		Disk:    disk(dir),
		GPU:     gpus(),
	}
	r.Libraries = append(r.Libraries, oneDNN())
	r.Libraries = append(r.Libraries, decoders(ctx)...)
	r.Libraries = append(r.Libraries, mpis()...)
	for _, l := range libraries.Optional() {
		r.Libraries = append(r.Libraries, probe(l))
	}
	r.GPU.Links = linksOf(r.GPU.Devices, r.Libraries)
	return r, ctx.Err()
}

// linksOf says how ranks with a GPU each would exchange values on this machine; nothing where there are not several.
func linksOf(gpus []cuda.Device, found []LibraryFound) string {
	i := slices.IndexFunc(found, func(l LibraryFound) bool { return l.Name == libraries.NCCL.Name })
	switch {
	case len(gpus) < 2 || i < 0:
		return ""
	case found[i].Found:
		return "by NCCL, from GPU to GPU, one rank each; through memory of the host where ranks share one"
	}
	return "through memory of the host, as NCCL is missing"
}

func thisProgram() ProgramFound {
	return ProgramFound{version.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// memory reads the machine's memory and, where a control group allows less, that.
func memory(meminfo, cgroup string) MemoryFound {
	var m MemoryFound
	f, err := os.Open(meminfo)
	if err != nil {
		return m
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "MemTotal:":
			m.TotalBytes = kib << 10
		case "MemAvailable:":
			m.AvailableBytes = kib << 10
		}
	}
	read := func(name string) (int64, bool) {
		text, err := os.ReadFile(filepath.Join(cgroup, name))
		if err != nil {
			return 0, false
		}
		v, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is no limit
		return v, err == nil
	}
	if limit, ok := read("memory.max"); ok && limit < m.TotalBytes {
		m.TotalBytes = limit
		if used, ok := read("memory.current"); ok {
			m.AvailableBytes = min(m.AvailableBytes, max(0, limit-used))
		}
	}
	return m
}

// disk tries the file system under dir: free space, writing, file locks.
func disk(dir string) DiskFound {
	d := DiskFound{Dir: dir}
	if abs, err := filepath.Abs(dir); err == nil {
		d.Dir = abs
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		d.Problem = err.Error()
		return d
	}
	d.FreeBytes = int64(st.Bavail) * st.Bsize
	f, err := os.CreateTemp(dir, ".ensemble-doctor-")
	if err != nil {
		d.Problem = err.Error()
		return d
	}
	defer os.Remove(f.Name())
	defer f.Close()
	d.Writable = true
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Problem = "no file locks: " + err.Error() + "; runs are kept apart by leases alone"
		return d
	}
	d.Locks = true
	return d
}

func oneDNN() LibraryFound {
	l := LibraryFound{Name: "oneDNN", Adds: "fast convolutions on the CPU; without it training is many times slower"}
	info, err := dnnl.Open()
	if err != nil {
		l.Why, l.Fix = parts(err)
		return l
	}
	l.Found, l.Version, l.Path = true, info.Version, info.Path
	return l
}

// parts gives the reason and the remedy of an error.
func parts(err error) (why, fix string) {
	var e *exit.Error
	if !errors.As(err, &e) {
		return err.Error(), ""
	}
	why = e.Why
	if why == "" {
		why = e.What
	}
	return why, e.Fix
}

// decoders asks the child program what it links.
func decoders(ctx context.Context) []LibraryFound {
	child := LibraryFound{Name: decode.ProgramName, Adds: "reading and writing GRIB and NetCDF at all"}
	linked := []LibraryFound{
		{Name: "ecCodes", Adds: "reading and writing GRIB"},
		{Name: "netCDF", Adds: "reading and writing NetCDF"},
		{Name: "HDF5", Adds: "NetCDF-4 files"},
	}
	fail := func(err error) []LibraryFound {
		child.Why, child.Fix = parts(err)
		for i := range linked {
			linked[i].Why = decode.ProgramName + " cannot be asked"
		}
		return append([]LibraryFound{child}, linked...)
	}
	path, err := decode.FindProgram()
	if err != nil {
		return fail(err)
	}
	child.Path = path
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return fail(err)
	}
	defer pool.Close()
	versions, err := pool.Libraries(ctx)
	if err != nil {
		return fail(err)
	}
	child.Found = true
	for i, l := range linked {
		if v := versions[strings.ToLower(l.Name)]; v != "" {
			linked[i].Found, linked[i].Version = true, v
		} else {
			linked[i].Why = decode.ProgramName + " does not name it"
		}
	}
	return append([]LibraryFound{child}, linked...)
}

// mpis looks for the MPI libraries.
func mpis() []LibraryFound {
	var found []LibraryFound
	for _, i := range mpi.Implementations {
		l := LibraryFound{Name: i.Name, Adds: "runs over several processes and machines, under mpirun or srun"}
		f, err := mpi.Probe(i)
		switch {
		case errors.Is(err, dl.ErrNotFound):
			l.Why = "the loader finds no " + strings.Join(i.Files, " or ")
		case err != nil:
			l.Why = err.Error()
		default:
			l.Found, l.Version, l.Path = true, strings.TrimSpace(strings.TrimPrefix(f.Version, i.Name)), f.Path
		}
		found = append(found, l)
	}
	return found
}

// probe looks for a library without calling anything in it.
func probe(want libraries.Library) LibraryFound {
	l := LibraryFound{Name: want.Name, Adds: want.Adds}
	lib, err := libraries.Find(want)
	if err != nil {
		l.Why, l.Fix = parts(err)
		return l
	}
	l.Found, l.Path = true, lib.Path()
	if real, err := filepath.EvalSymlinks(l.Path); err == nil {
		if _, v, ok := strings.Cut(filepath.Base(real), ".so."); ok {
			l.Version = "so " + v // of the interface; the release is not asked for
		}
	}
	return l
}

func gpus() GPUFound {
	g := GPUFound{Adds: "training and prediction on the GPU, and what it reads in progress lines", Devices: []cuda.Device{}}
	inv, err := cuda.Inspect()
	if err != nil {
		g.Why = err.Error()
		return g
	}
	g.Driver, g.CUDA, g.Devices, g.Found = inv.Driver, inv.CUDA, inv.Devices, len(inv.Devices) > 0
	if !g.Found {
		g.Why = "the driver names no GPU"
	}
	return g
}

// WriteText prints the report for a person.
func (r *DoctorReport) WriteText(w io.Writer) error {
	var b strings.Builder
	row := func(name, text string) { fmt.Fprintf(&b, "%-22s %s\n", name, text) }
	gib := func(n int64) string { return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB" }
	row("ensemble", fmt.Sprintf("%s, %s, %s", r.Program.Version, r.Program.Go, r.Program.System))
	row("processor", fmt.Sprintf("%s, %d cores", orUnknown(r.CPU.Model), r.CPU.Cores))
	row("features", orUnknown(strings.Join(r.CPU.Features, " ")))
	row("memory", fmt.Sprintf("%s, %s available", gib(r.Memory.TotalBytes), gib(r.Memory.AvailableBytes)))
	state := "writable, file locks work"
	if r.Disk.Problem != "" {
		state = r.Disk.Problem
	}
	row("disk", fmt.Sprintf("%s free in %s; %s", gib(r.Disk.FreeBytes), r.Disk.Dir, state))
	for _, l := range r.Libraries {
		if l.Found {
			row(l.Name, strings.TrimSpace(l.Version+"  "+l.Path))
			continue
		}
		row(l.Name, "missing; it would add: "+l.Adds)
		for _, extra := range []struct{ name, text string }{{"why", l.Why}, {"fix", l.Fix}} {
			if extra.text != "" {
				row("", extra.name+": "+extra.text)
			}
		}
	}
	if r.GPU.Found {
		row("NVIDIA driver", r.GPU.Driver+", CUDA "+r.GPU.CUDA)
		for _, d := range r.GPU.Devices {
			mig := ""
			if d.MIG {
				mig = ", cut into instances"
			}
			row(fmt.Sprintf("GPU %d", d.Index), fmt.Sprintf("%s, compute capability %s, %s, %s free, %s used%s", d.Name, d.Compute,
				gib(int64(d.TotalBytes)), gib(int64(d.FreeBytes)), gib(int64(d.UsedBytes)), mig))
			if len(d.Precisions) > 0 {
				row("", "matrix units for train.precision: "+strings.Join(d.Precisions, ", "))
			}
			row("", fmt.Sprintf("%d of %d MHz, memory %d MHz, %d °C, %.0f of %.0f W, %d %% busy", d.ClockMHz, d.MaxClockMHz, d.MemoryClockMHz,
				d.Temperature, d.PowerW, d.PowerLimitW, d.BusyPercent))
			if len(d.Throttled) > 0 {
				row("", "clocks are held down by: "+strings.Join(d.Throttled, ", "))
			}
		}
		if r.GPU.Links != "" {
			row("ranks on GPUs", "halos and gradients go "+r.GPU.Links)
		}
	} else {
		row("GPU", "missing; it would add: "+r.GPU.Adds)
		row("", "why: "+r.GPU.Why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
