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
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
)

// machineRecord is what a record says of this machine and build.
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

// checkSameMachine says that a training goes on, or is finished, where it was begun, as far as its bits may depend on that: a record
// names one machine, and would say of what another made that this one did. The machine is kept beside the run directory when
// the training begins; that of another version of the program is refused by the training itself.
//
// Errors: exit 73 if it was begun elsewhere.
func (o *Options) checkSameMachine(ctx context.Context, dir, device string) error {
	here := machineRecord(ctx, o.Version, device, o.Threads)
	if _, missing := os.Stat(dir); missing != nil || o.Overwrite {
		return writeMachine(dir, &here)
	}
	why := machineDifferences(dir, &here)
	if why == nil {
		return nil
	}
	return &exit.Error{Code: exit.CannotWrite, What: "the training was made where its bits may be others", At: dir, Why: strings.Join(why, "; "),
		Fix: "give another folder with --out, or train anew with --overwrite always"}
}

// machineSuffix follows the name of what was made on a machine, in the name of the file that says on which.
const machineSuffix = ".machine.json"

// writeMachine writes on what machine something is made.
func writeMachine(made string, here *record.Machine) error {
	if err := os.MkdirAll(filepath.Dir(made), 0o777); err != nil {
		return exit.CreateError(made, err)
	}
	return jsonfile.Write(made+machineSuffix, here)
}

// machineDifferences says in what the machine differs on which something was made, if its bits may depend on that, the version of the
// program aside; nil of what writeMachine was not called for.
func machineDifferences(made string, here *record.Machine) (why []string) {
	var there record.Machine
	text, err := os.ReadFile(made + machineSuffix)
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

// kernelVariables are those of the environment by which kernels are chosen.
var kernelVariables = []string{"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_CPU_ISA_HINTS"}

var glibcVersion = regexp.MustCompile(`GNU C Library [^\n]*release version ([0-9.]+[0-9])`)

// glibc is the version of the C library that this process has loaded, as the library itself says: "" if
// there is none, or another one.
func glibc(maps string) string {
	f, err := os.Open(maps)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.Contains(fields[5], "/libc.so") && !strings.Contains(fields[5], "/libc-") {
			continue
		}
		text, err := os.ReadFile(fields[5])
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
