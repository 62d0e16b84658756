// Package doctor reports the hardware and libraries of a machine that the program can use, and what
// missing ones would enable.
package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// Report is the result of `ensemble doctor`.
type Report struct {
	Program   Program   `json:"program"`
	CPU       CPU       `json:"cpu"`
	Memory    Memory    `json:"memory"`
	Disk      Disk      `json:"disk"`
	Libraries []Library `json:"libraries"`
	GPU       GPU       `json:"gpu"`
}

// Program describes this build.
type Program struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// CPU describes the processor; Features are instruction sets that kernels use.
type CPU struct {
	Model    string   `json:"model"`
	Cores    int      `json:"cores"`
	Features []string `json:"features"`
}

// Memory is the memory that this process may use.
type Memory struct {
	TotalBytes     int64 `json:"total_bytes"`
	AvailableBytes int64 `json:"available_bytes"`
}

// Disk describes the file system of a run directory.
type Disk struct {
	Dir       string `json:"dir"`
	FreeBytes int64  `json:"free_bytes"`
	Writable  bool   `json:"writable"`
	Locks     bool   `json:"file_locks"`
	Problem   string `json:"problem,omitempty"`
}

// Library is a library that is loaded at run time, or linked by the decoding program.
type Library struct {
	Name    string `json:"name"`
	Found   bool   `json:"found"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path,omitempty"`
	Sandbox string `json:"sandbox,omitempty"` // what restricts the decoding program
	Enables string `json:"enables"`           // features that it enables
	Why     string `json:"why,omitempty"`     // reason for which it is missing
	Fix     string `json:"fix,omitempty"`
}

// GPU is the information of the NVIDIA driver.
type GPU struct {
	Found     bool          `json:"found"`
	Driver    string        `json:"driver,omitempty"`
	CUDA      string        `json:"cuda,omitempty"`
	Devices   []cuda.Device `json:"devices"`
	Transport string        `json:"transport,omitempty"` // transport of halos and gradients between ranks on several GPUs
	Enables   string        `json:"enables"`
	Why       string        `json:"why,omitempty"`
}

// Examine inspects the machine: processor, memory, the file system of dir, libraries and GPUs.
//
// Errors: ctx.Err() only; missing parts are in the report.
func Examine(ctx context.Context, dir string) (*Report, error) {
	cpu := cpuinfo.Read()
	r := &Report{
		Program: CurrentProgram(),
		CPU:     CPU{cpu.Model, cpu.Cores, cpu.Features},
		Memory:  SystemMemory(),
		Disk:    disk(dir),
		GPU:     GPUs(),
	}
	r.Libraries = append(r.Libraries, OneDNN())
	r.Libraries = append(r.Libraries, Decoders(ctx)...)
	r.Libraries = append(r.Libraries, MPIs()...)
	for _, l := range libraries.Optional() {
		r.Libraries = append(r.Libraries, probe(l))
	}
	r.GPU.Transport = transportOf(r.GPU.Devices, r.Libraries)
	return r, ctx.Err()
}

// transportOf describes how ranks on different GPUs exchange values; "" with fewer than two GPUs.
func transportOf(gpus []cuda.Device, found []Library) string {
	i := slices.IndexFunc(found, func(l Library) bool { return l.Name == libraries.NCCL.Name })
	switch {
	case len(gpus) < 2 || i < 0:
		return ""
	case found[i].Found:
		return "NCCL between GPUs with one rank each; host memory if ranks share a GPU"
	}
	return "host memory, because NCCL is missing"
}

// CurrentProgram is this build.
func CurrentProgram() Program {
	return Program{version.String(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// SystemMemory is the memory of this machine, limited by the control groups of this process.
func SystemMemory() Memory {
	return memory("/proc/meminfo", controlGroups("/proc/self/cgroup", "/sys/fs/cgroup"))
}

// controlGroups lists the folders of the control group (cgroup v2) of this process and of the groups above it, each of which may
// have a limit. In a container the root is that of the container.
func controlGroups(self, root string) []string {
	groups := []string{root}
	text, err := filesystem.ReadFile(self)
	if err != nil {
		return groups
	}
	for line := range strings.Lines(string(text)) {
		path, isV2 := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !isV2 {
			continue
		}
		for path = filepath.Join("/", path); path != "/"; path = filepath.Dir(path) {
			groups = append(groups, filepath.Join(root, path))
		}
	}
	return groups
}

// memory reads /proc/meminfo, and the limits of control groups if they are lower.
func memory(meminfo string, groups []string) Memory {
	var m Memory
	f, err := filesystem.Open(meminfo)
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
	for _, group := range groups {
		limit, ok := readLimit(group, "memory.max")
		if !ok {
			continue
		}
		m.TotalBytes = min(m.TotalBytes, limit)
		if used, ok := readLimit(group, "memory.current"); ok {
			m.AvailableBytes = min(m.AvailableBytes, max(0, limit-used))
		}
	}
	return m
}

// readLimit reads a number of bytes of a control group. "max" means no limit.
func readLimit(group, name string) (bytes int64, ok bool) {
	text, err := filesystem.ReadFile(filepath.Join(group, name))
	if err != nil {
		return 0, false
	}
	bytes, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return bytes, err == nil
}

// disk tests the file system of dir: free space, writing, file locks.
func disk(dir string) Disk {
	d := Disk{Dir: dir}
	if abs, err := filesystem.Absolute("", dir); err == nil {
		d.Dir = abs
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		d.Problem = err.Error()
		return d
	}
	d.FreeBytes = int64(st.Bavail) * st.Bsize
	f, err := filesystem.CreateTemp(dir, ".ensemble-doctor-")
	if err != nil {
		var at *fs.PathError // without the temporary file name
		if errors.As(err, &at) {
			err = at.Err
		}
		d.Problem = "not writable: " + err.Error()
		return d
	}
	defer filesystem.Remove(f.Name())
	defer f.Close()
	d.Writable = true
	if err := filesystem.Flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Problem = "no file locks: " + err.Error() + "; concurrent runs are prevented by leases only"
		return d
	}
	d.Locks = true
	return d
}

// OneDNN loads oneDNN.
func OneDNN() Library {
	l := Library{Name: "oneDNN", Enables: "fast convolutions on the CPU; training is many times slower without it"}
	info, err := dnnl.Open()
	if err != nil {
		l.Why, l.Fix = exit.Reason(err)
		return l
	}
	l.Found, l.Version, l.Path = true, info.Version, info.Path
	return l
}

// Decoders queries the libraries that the decoding program links.
func Decoders(ctx context.Context) []Library {
	child := Library{Name: decode.ProgramName, Enables: "reading and writing GRIB and NetCDF"}
	linked := []Library{
		{Name: "ecCodes", Enables: "reading and writing GRIB"},
		{Name: "netCDF", Enables: "reading and writing NetCDF"},
		{Name: "HDF5", Enables: "NetCDF-4 files"},
	}
	fail := func(err error) []Library {
		child.Why, child.Fix = exit.Reason(err)
		for i := range linked {
			linked[i].Why = decode.ProgramName + " is not available"
		}
		return append([]Library{child}, linked...)
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
	if child.Sandbox, err = pool.Sandbox(ctx); err != nil {
		return fail(err)
	}
	child.Found = true
	for i, l := range linked {
		if v := versions[strings.ToLower(l.Name)]; v != "" {
			linked[i].Found, linked[i].Version = true, v
		} else {
			linked[i].Why = "not linked by " + decode.ProgramName
		}
	}
	return append([]Library{child}, linked...)
}

// MPIs looks for MPI libraries.
func MPIs() []Library {
	var found []Library
	for _, i := range mpi.Implementations {
		l := Library{Name: i.Name, Enables: "parallel jobs over several processes and machines, with mpirun or srun"}
		f, err := mpi.Probe(i)
		switch {
		case errors.Is(err, dl.ErrNotFound):
			l.Why = "not found: " + strings.Join(i.Files, " or ")
		case err != nil:
			l.Why = err.Error()
		default:
			l.Found, l.Version, l.Path = true, strings.TrimSpace(strings.TrimPrefix(f.Version, i.Name)), f.Path
		}
		found = append(found, l)
	}
	return found
}

// probe looks for a library without calling it.
func probe(want libraries.Library) Library {
	l := Library{Name: want.Name, Enables: want.Enables}
	lib, err := libraries.Find(want)
	if err != nil {
		l.Why, l.Fix = exit.Reason(err)
		return l
	}
	l.Found, l.Path = true, lib.Path()
	if real, err := filepath.EvalSymlinks(l.Path); err == nil {
		if _, v, ok := strings.Cut(filepath.Base(real), ".so."); ok {
			l.Version = "so " + v // version of the interface, not of the release
		}
	}
	return l
}

// GPUs queries the NVIDIA driver.
func GPUs() GPU {
	g := GPU{Enables: "training and prediction on GPUs, with GPU metrics in progress lines", Devices: []cuda.Device{}}
	inv, err := cuda.Inspect()
	if err != nil {
		g.Why = err.Error()
		return g
	}
	g.Driver, g.CUDA, g.Devices, g.Found = inv.Driver, inv.CUDA, inv.Devices, len(inv.Devices) > 0
	if !g.Found {
		g.Why = "the driver reports no GPU"
	}
	return g
}

// Sections is the report as a table, with a row for each part of the machine.
func (r *Report) Sections() answer.Sections {
	var rows [][2]string
	row := func(name, text string) { rows = append(rows, [2]string{name, text}) }
	row("ensemble", fmt.Sprintf("%s, %s, %s", r.Program.Version, r.Program.Go, r.Program.System))
	row("processor", fmt.Sprintf("%s, %d cores", OrUnknown(r.CPU.Model), r.CPU.Cores))
	row("features", OrUnknown(strings.Join(r.CPU.Features, " ")))
	row("memory", fmt.Sprintf("%s, %s available", gib(r.Memory.TotalBytes), gib(r.Memory.AvailableBytes)))
	state := "writable, file locks work"
	if r.Disk.Problem != "" {
		state = r.Disk.Problem
	}
	row("disk", fmt.Sprintf("%s free in %s; %s", gib(r.Disk.FreeBytes), r.Disk.Dir, state))
	for _, l := range r.Libraries {
		if l.Found {
			row(l.Name, strings.TrimSpace(l.Version+"  "+l.Path))
			if l.Sandbox != "" {
				row("", "sandbox: "+l.Sandbox)
			}
			continue
		}
		row(l.Name, "missing; it would enable: "+l.Enables)
		for _, extra := range []struct{ name, text string }{{"why", l.Why}, {"fix", l.Fix}} {
			if extra.text != "" {
				row("", extra.name+": "+extra.text)
			}
		}
	}
	return answer.Sections{answer.FactsSection(append(rows, r.GPU.rows()...)...)}
}

// rows are the rows of the GPUs.
func (g GPU) rows() (rows [][2]string) {
	if !g.Found {
		return [][2]string{{"GPU", "missing; it would enable: " + g.Enables}, {"", "why: " + g.Why}}
	}
	row := func(name, text string) { rows = append(rows, [2]string{name, text}) }
	row("NVIDIA driver", g.Driver+", CUDA "+g.CUDA)
	for _, d := range g.Devices {
		mig := ""
		if d.MIG {
			mig = ", divided into MIG instances"
		}
		row(fmt.Sprintf("GPU %d", d.Index), fmt.Sprintf("%s, compute capability %s, %s, %s free, %s used%s", d.Name, d.Compute,
			gib(int64(d.TotalBytes)), gib(int64(d.FreeBytes)), gib(int64(d.UsedBytes)), mig))
		if len(d.Precisions) > 0 {
			row("", "matrix units for train.precision: "+strings.Join(d.Precisions, ", "))
		}
		row("", fmt.Sprintf("%d of %d MHz, memory %d MHz, %d °C, %.0f of %.0f W, %d %% busy", d.ClockMHz, d.MaxClockMHz, d.MemoryClockMHz,
			d.Temperature, d.PowerW, d.PowerLimitW, d.UtilisationPercent))
		if len(d.Throttled) > 0 {
			row("", "clocks are throttled by: "+strings.Join(d.Throttled, ", "))
		}
	}
	if g.Transport != "" {
		row("ranks on GPUs", "transport of halos and gradients: "+g.Transport)
	}
	return rows
}

// gib formats bytes in GiB.
func gib(n int64) string { return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB" }

// OrUnknown is s, or "unknown".
func OrUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
