package device

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Part is one measurement.
type Part struct {
	Name, Purpose string
	measure       func(ctx context.Context, c *Options) (answer.Sectioned, error)
}

// Parts lists the measurements in the order of benchmarks/gpu.sh.
func Parts() []Part {
	return []Part{
		{"info", "hardware of the machine, and the device that the engine opens", info},
		{"peak", "rates of matrix products and copies on the device", peak},
		{"train", "time, rates and memory of a training step", train},
		{"agree", "error of output and gradient relative to float64", agree},
		{"conformance", "the conformance suite, built as a separate program", conformance},
		{"predict", "time of a prediction from host to host", predict},
		{"memory", "a training step in half of its memory, and without limit", memory},
		{"learn", "losses of short trainings on the device and the processor", learn},
		{Report, "combine the results of all parts, with ratios and targets", report},
	}
}

// Report is the name of the part that combines the others in a file.
const Report = "report"

// Options select the measurement. Zero values are defaults, which are tiny on Emulated.
type Options struct {
	Network
	Case         string  // its name in the answer; "": that of the part
	Backend      string  // "cuda" (also if empty), "cpu", "ref", or Emulated
	SmallerBatch bool    // train: reduce Batch until a plan exists
	Seconds      float64 // duration of measured steps; 0: 3
	Steps        int     // measured; 0: as Seconds allow. learn: of a training; 0: 200
	Seeds        int     // trainings on each device; 0: 3
	Program      string  // with the conformance suite
	Tests        string  // pattern of its tests
	Processes    int     // processes that share the operations of the suite, if Tests names a backend; 0: 1
	Limit        float64 // seconds for the suite; 0: 60
	Share        float64 // fraction of a step's memory to which it is limited; 0: 0.5
	Parts        string  // folder with the results of the parts
	Out          string  // file of the report
}

// Emulated is the backend that runs GPU kernels on the processor, some 1e5 times slower.
const Emulated = "emulated"

// check completes the options.
//
// Errors: exit 64.
func (c *Options) check(part string) error {
	d := Options{Network: Network{Base: 32, Stages: unet3d.MaxStages, Batch: 2, Channels: 42, Field: Field{2, 352, 704}}, Seeds: 3}
	if c.Backend == Emulated {
		d = Options{Network: Network{Base: 1, Stages: 1, Batch: 1, Channels: 3, Field: Field{2, 8, 8}}, Seeds: 2, Steps: 2}
	}
	for _, n := range []struct {
		to *int
		or int
	}{{&c.Base, d.Base}, {&c.Stages, d.Stages}, {&c.Batch, d.Batch}, {&c.Channels, d.Channels}, {&c.Seeds, d.Seeds}, {&c.Steps, d.Steps}, {&c.Processes, 1},
		{&c.Threads, network.Threads(0)}} {
		*n.to = cmp.Or(*n.to, n.or)
	}
	c.Field = cmp.Or(c.Field, d.Field)
	c.Case, c.Backend, c.Precision = cmp.Or(c.Case, part), cmp.Or(c.Backend, "cuda"), cmp.Or(c.Precision, "bf16")
	c.Seconds, c.Limit, c.Share = cmp.Or(c.Seconds, 3), cmp.Or(c.Limit, 60), cmp.Or(c.Share, 0.5)
	bad := c.Network.check()
	if c.Steps < 0 || !(c.Seconds > 0) || c.Seeds < 2 || c.Threads < 1 || c.Processes < 1 || !(c.Limit > 0) || !(c.Share >= 0.1 && c.Share <= 0.9) {
		bad = fmt.Errorf("seconds, threads, processes and limit must be positive, steps not negative, seeds at least 2, and the memory share from 0.1 to 0.9")
	}
	if bad != nil {
		return &exit.Error{Code: exit.Usage, What: "invalid options", At: "bench device " + part, Why: bad.Error(), Fix: "`ensemble bench device --help` describes the flags", Err: bad}
	}
	return nil
}

// Measure performs one measurement. With an error there may be a result: what was measured until then.
//
// Errors: exit 64 for an unknown part or invalid options; 1 for a device that does not conform; those of the
// engine.
func Measure(ctx context.Context, part string, o Options) (answer.Sectioned, error) {
	var names []string
	for _, p := range Parts() {
		names = append(names, p.Name)
		if p.Name != part {
			continue
		}
		if err := o.check(part); err != nil {
			return nil, err
		}
		register()
		return p.measure(ctx, &o)
	}
	fix := "`ensemble bench device --help` lists the parts"
	if near := nearest.Find(part, names); near != "" {
		fix = "did you mean `" + near + "`?"
	}
	return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown part %q", part), At: "bench device", Fix: fix}
}

// register adds the emulated device to the engine.
func register() {
	if slices.ContainsFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == Emulated }) {
		return
	}
	engine.Backends = append(engine.Backends, engine.Backend{Name: Emulated, Purpose: "kernels of the GPU on the processor",
		Open: func(o engine.Options) (backend.Backend, error) {
			b, err := emulated.Open(4 << 30)
			if r, ok := b.(interface{ AllowTF32(bool) }); ok {
				r.AllowTF32(o.Precision == "tf32")
			}
			return b, err
		}})
}

// open opens the device.
func (c *Options) open() (backend.Backend, error) {
	for _, b := range engine.Backends {
		if b.Name == c.Backend {
			return b.Open(engine.Options{Device: engine.Device{Threads: c.Threads}})
		}
	}
	return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown backend %q", c.Backend), At: "bench device", Fix: "give cuda, cpu, ref or " + Emulated}
}

// machine describes the machine.
type machine struct {
	*doctor.Report
	Device *device.Properties `json:"device"` // as opened by the engine
}

// info describes the machine; without a device it fails.
func info(ctx context.Context, c *Options) (answer.Sectioned, error) {
	r, err := doctor.Examine(ctx, ".")
	if err != nil {
		return nil, err
	}
	m := &machine{Report: r}
	dev, err := c.open()
	if err != nil {
		return m, err
	}
	defer dev.Close()
	if d, ok := dev.(interface{ Device() device.Device }); ok {
		p := d.Device().Properties()
		m.Device = &p
	}
	return m, nil
}

// Sections returns the report as text.
func (m *machine) Sections() answer.Sections {
	all := m.Report.Sections()
	if m.Device != nil {
		all = append(all, answer.FactsSection([2]string{"device", fmt.Sprintf("%s, architecture %d, %d processors, %.3g GB, %.4g GB/s", m.Device.Name, m.Device.Architecture, m.Device.Multiprocessors,
			float64(m.Device.MemoryBytes)/1e9, m.Device.MemoryBandwidth/1e9)}))
	}
	return all
}
