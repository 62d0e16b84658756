package cost

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// MachineFormat is the version of files of machines.
const MachineFormat = 1

// mostMachineBytes is the largest size of a file of a machine; one with a thousand numbers of threads is smaller.
const mostMachineBytes = 1 << 20

// Machine describes a processor by measured rates.
type Machine struct {
	Format int     `json:"format"` // MachineFormat
	CPU    string  `json:"cpu"`    // model; empty if the system does not name it
	Arch   string  `json:"arch"`   // GOARCH
	ISA    string  `json:"isa"`    // instruction set of the kernels
	Cores  int     `json:"cores"`
	L2     int64   `json:"l2_bytes"`     // of a core; 0: unknown
	L3     int64   `json:"l3_bytes"`     // shared by cores; 0: unknown
	Memory int64   `json:"memory_bytes"` // of the machine; 0: unknown
	Rates  []Rates `json:"rates"`        // by number of threads, ascending
}

// Rates are the best rates with a number of threads.
//
// Unit: floating point operations or bytes per second, all threads together; seconds.
type Rates struct {
	Threads  int     `json:"threads"`
	Products float64 `json:"products"` // a large matrix product, by this program's kernel
	// Minimal are the products of Winograd's form, two operations each, in a convolution that includes its transforms.
	Minimal float64 `json:"minimal_products"`
	// The same with bfloat16 factors (precision bf16_products); 0: the processor cannot multiply them.
	BF16Products float64 `json:"bf16_products,omitempty"`
	BF16Minimal  float64 `json:"bf16_minimal_products,omitempty"`
	Elementwise  float64 `json:"elementwise"` // a chain of elementwise operations on values in the second cache
	L2           float64 `json:"l2"`          // copy within the second caches, bytes read and written
	L3           float64 `json:"l3"`          // copy of l3Bytes
	DRAM         float64 `json:"dram"`        // copy of DRAMBytes
	Start        float64 `json:"start_s"`     // an operation on a few values
}

// Sizes of the copies that are measured, read and written together.
const (
	L3Bytes   = 32 << 20
	DRAMBytes = 512 << 20
)

// Write writes the file of a machine: indented JSON.
func (m *Machine) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(m)
}

// ReadMachine reads the file of a machine, also in the form of an answer with --json.
//
// Errors: *exit.Error; 65 for a file that is truncated, of another version, or has numbers that no machine has; 66 and 74 as
// exit.ReadError.
func ReadMachine(path string) (*Machine, error) {
	f, err := filesystem.Open(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostMachineBytes+1))
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	m, err := parseMachine(text)
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the file describes no machine", At: path, Why: err.Error(),
			Fix: "write it again on that machine: ensemble bench --machine > FILE", Err: err}
	}
	return m, nil
}

// parseMachine decodes and checks the text of a file.
func parseMachine(text []byte) (*Machine, error) {
	if len(text) > mostMachineBytes {
		return nil, fmt.Errorf("it is larger than %d bytes", mostMachineBytes)
	}
	var version struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && syntax.Offset >= int64(len(text)) {
			return nil, errors.New("it is truncated: the JSON object does not end")
		}
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	if version.Format == nil {
		return nil, errors.New(`it has no "format"`)
	}
	if *version.Format != MachineFormat {
		return nil, fmt.Errorf("it has format %d, this program reads %d", *version.Format, MachineFormat)
	}
	var m Machine
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	return &m, m.check()
}

// Bounds of plausible numbers, far outside of those of today's machines.
const (
	mostThreads = 1 << 16
	leastRate   = 1e6  // per second
	mostRate    = 1e17 // per second
	mostStart   = 1.0  // seconds
	mostSize    = 1 << 50
)

// check refuses numbers that no machine has.
func (m *Machine) check() error {
	if m.ISA == "" || m.Arch == "" {
		return errors.New(`"arch" or "isa" is missing`)
	}
	if m.Cores < 1 || m.Cores > mostThreads {
		return fmt.Errorf(`"cores" is %d, want 1 to %d`, m.Cores, mostThreads)
	}
	for _, s := range []struct {
		name  string
		bytes int64
	}{{"l2_bytes", m.L2}, {"l3_bytes", m.L3}, {"memory_bytes", m.Memory}} {
		if s.bytes < 0 || s.bytes > mostSize {
			return fmt.Errorf("%q is %d, want 0 to %d", s.name, s.bytes, int64(mostSize))
		}
	}
	if len(m.Rates) == 0 {
		return errors.New(`"rates" is missing or empty`)
	}
	threads := 0
	for _, r := range m.Rates {
		if r.Threads <= threads || r.Threads > mostThreads {
			return fmt.Errorf(`"rates": %d threads after %d, want ascending numbers from 1 to %d`, r.Threads, threads, mostThreads)
		}
		threads = r.Threads
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

// check refuses rates that no machine has.
func (r *Rates) check() error {
	for _, v := range []struct {
		name string
		rate float64
	}{{"products", r.Products}, {"minimal_products", r.Minimal},
		{"bf16_products", cmp.Or(r.BF16Products, leastRate)}, {"bf16_minimal_products", cmp.Or(r.BF16Minimal, leastRate)}, {"elementwise", r.Elementwise}, {"l2", r.L2}, {"l3", r.L3}, {"dram", r.DRAM}} {
		if !(v.rate >= leastRate && v.rate <= mostRate) {
			return fmt.Errorf("rates with %d threads: %q is %g per second, want %g to %g", r.Threads, v.name, v.rate, leastRate, mostRate)
		}
	}
	if !(r.Start > 0 && r.Start <= mostStart) {
		return fmt.Errorf(`rates with %d threads: "start_s" is %g, want more than 0 and at most %g seconds`, r.Threads, r.Start, mostStart)
	}
	return nil
}

// processor describes the kind of processor: virtual machines give several the same model name, so the second cache is part of it.
func (m *Machine) processor() string { return fmt.Sprintf("%s (L2 %d KiB)", m.CPU, m.L2>>10) }

// Setup is a machine with what a step may use of it.
type Setup struct {
	Machine   *Machine
	Rates     Rates  // of the number of threads
	Precision string // as engine.Numerics.Precision
}

// bf16Precision is the precision whose convolutions multiply bfloat16.
const bf16Precision = "bf16_products"

// Setup returns the machine with a number of threads, 0 for all cores. Rates between measured numbers of threads are interpolated, in
// the logarithms of both.
//
// Errors: *exit.Error; 64 for more threads than were measured, 69 for a precision that the processor lacks.
func (m *Machine) Setup(threads int, precision string) (Setup, error) {
	s := Setup{Machine: m, Precision: precision}
	if precision == bf16Precision && m.Rates[0].BF16Products == 0 {
		return s, &exit.Error{Code: exit.NoDevice, What: "that processor cannot multiply bfloat16", At: "precision " + precision,
			Why: "its kernels are " + m.ISA, Fix: "choose precision bf16: it stores fields as bfloat16 and computes in float32"}
	}
	last := m.Rates[len(m.Rates)-1].Threads
	if threads == 0 {
		threads = last
	}
	if threads < 0 || threads > last {
		return s, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d threads on a machine that was measured with %d", threads, last), At: "train.threads",
			Fix: fmt.Sprintf("set train.threads to 1 to %d, or 0 for all", last)}
	}
	at := slices.IndexFunc(m.Rates, func(r Rates) bool { return r.Threads >= threads })
	s.Rates = m.Rates[at]
	if s.Rates.Threads != threads && at > 0 {
		s.Rates = between(m.Rates[at-1], m.Rates[at], threads)
	}
	s.Rates.Threads = threads
	return s, nil
}

// between interpolates rates.
func between(a, b Rates, threads int) Rates {
	share := math.Log(float64(threads)/float64(a.Threads)) / math.Log(float64(b.Threads)/float64(a.Threads))
	of := func(x, y float64) float64 {
		if x == 0 { // no processor multiplies bfloat16 with some numbers of threads only
			return 0
		}
		return x * math.Pow(y/x, share)
	}
	return Rates{Threads: threads, Products: of(a.Products, b.Products), Minimal: of(a.Minimal, b.Minimal),
		BF16Products: of(a.BF16Products, b.BF16Products), BF16Minimal: of(a.BF16Minimal, b.BF16Minimal), Elementwise: of(a.Elementwise, b.Elementwise),
		L2: of(a.L2, b.L2), L3: of(a.L3, b.L3), DRAM: of(a.DRAM, b.DRAM), Start: of(a.Start, b.Start)}
}

// best returns the better of each rate of two measurements.
func (r Rates) best(s Rates) Rates {
	return Rates{Threads: r.Threads, Products: max(r.Products, s.Products), Minimal: max(r.Minimal, s.Minimal),
		BF16Products: max(r.BF16Products, s.BF16Products), BF16Minimal: max(r.BF16Minimal, s.BF16Minimal), Elementwise: max(r.Elementwise, s.Elementwise),
		L2: max(r.L2, s.L2), L3: max(r.L3, s.L3), DRAM: max(r.DRAM, s.DRAM), Start: min(r.Start, s.Start)}
}

// String describes the setup.
func (s Setup) String() string {
	return fmt.Sprintf("%s %s %s %d", s.Machine.processor(), s.Machine.ISA, s.Precision, s.Rates.Threads)
}

// far returns the rate of bytes that do not stay in the second caches, for a step with values and an operation's operands of this size:
// between the rates of copies of L3Bytes and of DRAMBytes, in the logarithms.
func (r Rates) far(bytes int64) float64 {
	share := math.Log(float64(max(bytes, 1))/L3Bytes) / math.Log(float64(DRAMBytes)/L3Bytes)
	return r.L3 * math.Pow(r.DRAM/r.L3, min(max(share, 0), 1))
}
