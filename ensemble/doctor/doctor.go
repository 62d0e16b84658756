// Package doctor says what a machine has for this program: processor, memory, disk, libraries and GPUs, and what each
// thing that is missing would add.
package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// Report is what `ensemble doctor` finds on a machine.
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

// CPU describes the processor.
type CPU struct {
	Model    string   `json:"model"`
	Cores    int      `json:"cores"`
	Features []string `json:"features"`
}

// Memory is the memory that this process can use.
type Memory struct {
	TotalBytes     int64 `json:"total_bytes"`
	AvailableBytes int64 `json:"available_bytes"`
}

// Disk describes the file system that a run would write to.
type Disk struct {
	Dir       string `json:"dir"`
	FreeBytes int64  `json:"free_bytes"`
	Writable  bool   `json:"writable"`
	Locks     bool   `json:"file_locks"`
	Problem   string `json:"problem,omitempty"`
}

// Library is one library that is opened at run time, or linked by the decoding
// program.
type Library struct {
	Name    string `json:"name"`
	Found   bool   `json:"found"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path,omitempty"`
	Enables string `json:"enables"`       // what it adds to the program
	Why     string `json:"why,omitempty"` // it is missing
	Fix     string `json:"fix,omitempty"`
}

// GPU is what the NVIDIA driver says.
type GPU struct {
	Found     bool          `json:"found"`
	Driver    string        `json:"driver,omitempty"`
	CUDA      string        `json:"cuda,omitempty"`
	Devices   []cuda.Device `json:"devices"`
	Transport string        `json:"transport,omitempty"` // what ranks on several of them exchange halos and gradients by
	Enables   string        `json:"enables"`
	Why       string        `json:"why,omitempty"`
}

// Examine looks at the machine: processor, memory, the disk under dir, libraries and
// GPUs, and says what each thing that is missing would add.
//
// Errors: only ctx.Err(); that something is missing is an answer.
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

// transportOf says how ranks with a GPU each would exchange values on this machine; nothing where there are not several.
func transportOf(gpus []cuda.Device, found []Library) string {
	i := slices.IndexFunc(found, func(l Library) bool { return l.Name == libraries.NCCL.Name })
	switch {
	case len(gpus) < 2 || i < 0:
		return ""
	case found[i].Found:
		return "by NCCL, from GPU to GPU, one rank each; through memory of the host where ranks share one"
	}
	return "through memory of the host, as NCCL is missing"
}

// CurrentProgram is this build.
func CurrentProgram() Program {
	return Program{version.String(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// SystemMemory is the memory of this machine, or what the control group of this process allows of it.
func SystemMemory() Memory { return memory("/proc/meminfo", "/sys/fs/cgroup") }

// memory reads the machine's memory and, where a control group allows less, that.
func memory(meminfo, cgroup string) Memory {
	var m Memory
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
func disk(dir string) Disk {
	d := Disk{Dir: dir}
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
		var at *fs.PathError // of a name that means nothing to who reads it
		if errors.As(err, &at) {
			err = at.Err
		}
		d.Problem = "not writable: " + err.Error()
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

// OneDNN opens the library.
func OneDNN() Library {
	l := Library{Name: "oneDNN", Enables: "fast convolutions on the CPU; without it training is many times slower"}
	info, err := dnnl.Open()
	if err != nil {
		l.Why, l.Fix = exit.Reason(err)
		return l
	}
	l.Found, l.Version, l.Path = true, info.Version, info.Path
	return l
}

// Decoders asks the child program what it links.
func Decoders(ctx context.Context) []Library {
	child := Library{Name: decode.ProgramName, Enables: "reading and writing GRIB and NetCDF at all"}
	linked := []Library{
		{Name: "ecCodes", Enables: "reading and writing GRIB"},
		{Name: "netCDF", Enables: "reading and writing NetCDF"},
		{Name: "HDF5", Enables: "NetCDF-4 files"},
	}
	fail := func(err error) []Library {
		child.Why, child.Fix = exit.Reason(err)
		for i := range linked {
			linked[i].Why = decode.ProgramName + " cannot be asked"
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
	child.Found = true
	for i, l := range linked {
		if v := versions[strings.ToLower(l.Name)]; v != "" {
			linked[i].Found, linked[i].Version = true, v
		} else {
			linked[i].Why = decode.ProgramName + " does not name it"
		}
	}
	return append([]Library{child}, linked...)
}

// MPIs looks for the MPI libraries.
func MPIs() []Library {
	var found []Library
	for _, i := range mpi.Implementations {
		l := Library{Name: i.Name, Enables: "runs over several processes and machines, under mpirun or srun"}
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
			l.Version = "so " + v // of the interface; the release is not asked for
		}
	}
	return l
}

// GPUs asks the NVIDIA driver.
func GPUs() GPU {
	g := GPU{Enables: "training and prediction on the GPU, and what it reads in progress lines", Devices: []cuda.Device{}}
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

// Sections are the report for people: a row for each part of the machine.
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
			continue
		}
		row(l.Name, "missing; it would add: "+l.Enables)
		for _, extra := range []struct{ name, text string }{{"why", l.Why}, {"fix", l.Fix}} {
			if extra.text != "" {
				row("", extra.name+": "+extra.text)
			}
		}
	}
	return answer.Sections{answer.FactsSection(append(rows, r.GPU.rows()...)...)}
}

// rows are what there is to say of the GPUs.
func (g GPU) rows() (rows [][2]string) {
	if !g.Found {
		return [][2]string{{"GPU", "missing; it would add: " + g.Enables}, {"", "why: " + g.Why}}
	}
	row := func(name, text string) { rows = append(rows, [2]string{name, text}) }
	row("NVIDIA driver", g.Driver+", CUDA "+g.CUDA)
	for _, d := range g.Devices {
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
			d.Temperature, d.PowerW, d.PowerLimitW, d.UtilisationPercent))
		if len(d.Throttled) > 0 {
			row("", "clocks are held down by: "+strings.Join(d.Throttled, ", "))
		}
	}
	if g.Transport != "" {
		row("ranks on GPUs", "halos and gradients go "+g.Transport)
	}
	return rows
}

func gib(n int64) string { return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB" }

// OrUnknown is s, or a word for nothing.
func OrUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
