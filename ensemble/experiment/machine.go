package experiment

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
)

// machineRecord describes this machine and build for a record.
func machineRecord(ctx context.Context, version, device string, threads int) record.Machine {
	cpu := cpuinfo.Read()
	m := record.Machine{Program: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpu.Model, CPUFamily: cpu.Family, Features: cpu.Features, Cores: cpu.Cores, Kernels: kern.ISA(),
		MemoryBytes: doctor.SystemMemory().TotalBytes,
		Device:      device, Threads: threads, Determinism: "D1", Libraries: map[string]string{}, Variables: map[string]string{}}
	for _, l := range append([]doctor.Library{doctor.OneDNN()}, doctor.Decoders(ctx)...) {
		if l.Found && l.Version != "" {
			m.Libraries[l.Name] = l.Version
		}
	}
	if v := glibc("/proc/self/maps"); v != "" {
		m.Libraries["glibc"] = v
	}
	found := doctor.GPUs()
	for _, d := range found.Devices {
		m.GPUs = append(m.GPUs, d.Name)
	}
	if found.Found {
		m.Libraries["NVIDIA driver"] = found.Driver
	}
	for _, name := range kernelVariables {
		if v, ok := os.LookupEnv(name); ok {
			m.Variables[name] = v
		}
	}
	return m
}

// checkSameMachine checks that an existing run was started on an equivalent machine, as far as results
// may depend on it, because a record describes one machine only. The description of the machine is
// saved next to the run directory at the beginning of a training. Other versions of the program are refused
// by the training itself.
//
// Errors: exit 73 if the run was started on a different machine.
func (o *Options) checkSameMachine(ctx context.Context, dir, device string) error {
	here := machineRecord(ctx, o.Version, device, o.Threads)
	if _, missing := filesystem.Stat(dir); missing != nil || o.Overwrite {
		return writeMachine(dir, &here)
	}
	why := machineDifferences(dir, &here)
	if why == nil {
		return nil
	}
	return &exit.Error{Code: exit.CannotWrite, What: "the run was started on a different machine, results may differ", At: dir, Why: strings.Join(why, "; "),
		Fix: "give another output directory, or remove this run to train it again"}
}

// machineSuffix is the suffix of the file that describes the machine of a run or log.
const machineSuffix = ".machine.json"

// writeMachine saves the machine of a run or log.
func writeMachine(made string, here *record.Machine) error {
	if err := filesystem.MkdirAll(filepath.Dir(made), 0o777); err != nil {
		return exit.CreateError(made, err)
	}
	return jsonfile.Write(made+machineSuffix, here)
}

// machineDifferences lists differences between the saved machine of a run or log and this one that
// may change results, except the program version; nil if no machine was saved.
func machineDifferences(made string, here *record.Machine) (why []string) {
	var there record.Machine
	text, err := filesystem.ReadFile(made + machineSuffix)
	if err != nil || json.Unmarshal(text, &there) != nil {
		return nil
	}
	for _, d := range there.Differences(here) {
		if d.Bits && d.What != record.ProgramDiffers {
			why = append(why, d.What+" "+orNone(d.A)+", here "+orNone(d.B))
		}
	}
	return why
}

// kernelVariables are the environment variables that affect the choice of kernels.
var kernelVariables = []string{"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_CPU_ISA_HINTS"}

var glibcVersion = regexp.MustCompile(`GNU C Library [^\n]*release version ([0-9.]+[0-9])`)

// glibc is the version of the loaded GNU C library; "" for other C libraries. maps is
// /proc/self/maps.
func glibc(maps string) string {
	f, err := filesystem.Open(maps)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.Contains(fields[5], "/libc.so") && !strings.Contains(fields[5], "/libc-") {
			continue
		}
		text, err := filesystem.ReadFile(fields[5])
		if err != nil {
			return ""
		}
		if at := bytes.Index(text, []byte("GNU C Library ")); at >= 0 {
			if m := glibcVersion.FindSubmatch(text[at:min(at+200, len(text))]); m != nil {
				return string(m[1])
			}
		}
		return ""
	}
	return ""
}
