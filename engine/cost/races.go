package cost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// Races are measured times of operations, steps and variants of kernels on several setups.
type Races struct {
	Setups   []Setup
	Ops      []Race
	Steps    []StepRace
	Variants []VariantRace
	Tunings  []Tuning
}

// Race is an operation with its times.
type Race struct {
	Work
	Values int64     // bytes of the values of the step in which it ran
	Times  []float64 // seconds, by setup; 0: did not run
}

// StepRace is a step with its times.
type StepRace struct {
	Network string    // and size
	Phase   string    // "train" or "predict"
	Ops     []int     // index of each operation in Races.Ops
	Times   []float64 // seconds, by setup; 0: did not run
	// Producers are those of Step; operations of a training step end with the optimiser's update, which is not among them.
	Producers Producers
}

// MeasuredStep is one step on one setup.
type MeasuredStep struct {
	Step
	Network, Phase string
	Time           float64   // seconds, the least of several runs
	OpTimes        []float64 // seconds of each operation, the least of several runs
}

// raceKey identifies a race.
type raceKey struct {
	kind, shape string
	amounts     string // as in a file
	values      string
}

// keyOf identifies the race of an operation. Two digits of the values suffice: workspaces of more threads
// add little to them.
func keyOf(w Work, values int64) raceKey {
	return raceKey{w.Kind, w.Shape, string(line(digits(w.Amounts[:], 1))), strconv.FormatFloat(float64(values), 'g', 2, 64)}
}

// Add adds a setup with its steps. Of operations of a step that do the same, the mean time counts. If the setup is known the least times
// and the best rates of both measurements count, since other processes only slow a machine.
func (r *Races) Add(s Setup, steps []MeasuredStep) {
	k := r.setup(s)
	known := map[raceKey]int{}
	for i, o := range r.Ops {
		known[keyOf(o.Work, o.Values)] = i
	}
	sums, counts := map[int]float64{}, map[int]float64{}
	for _, m := range steps {
		var ops []int
		for i, w := range m.Ops {
			key := keyOf(w, m.Values)
			at, ok := known[key]
			if !ok {
				at = len(r.Ops)
				known[key] = at
				r.Ops = append(r.Ops, Race{w, m.Values, make([]float64, len(r.Setups))})
			}
			sums[at] += m.OpTimes[i]
			counts[at]++
			ops = append(ops, at)
		}
		r.step(m, ops, k)
	}
	for at, sum := range sums {
		r.Ops[at].Times[k] = least(r.Ops[at].Times[k], sum/counts[at])
	}
}

// setup returns the place of a setup, which is added if it is unknown.
func (r *Races) setup(s Setup) int {
	if k := slices.IndexFunc(r.Setups, func(o Setup) bool { return SameSetup(s, o) }); k >= 0 {
		r.improve(k, s)
		return k
	}
	r.Setups = append(r.Setups, s)
	for i := range r.Ops {
		r.Ops[i].Times = append(r.Ops[i].Times, 0)
	}
	for i := range r.Steps {
		r.Steps[i].Times = append(r.Steps[i].Times, 0)
	}
	for i := range r.Variants {
		r.Variants[i].Times = append(r.Variants[i].Times, 0)
	}
	return len(r.Setups) - 1
}

// step enters the time of a step.
func (r *Races) step(m MeasuredStep, ops []int, k int) {
	at := slices.IndexFunc(r.Steps, func(s StepRace) bool {
		return s.Network == m.Network && s.Phase == m.Phase && slices.Equal(s.Ops, ops)
	})
	if at < 0 {
		at = len(r.Steps)
		r.Steps = append(r.Steps, StepRace{m.Network, m.Phase, ops, make([]float64, len(r.Setups)), m.Producers})
	}
	r.Steps[at].Times[k] = least(r.Steps[at].Times[k], m.Time)
}

// least is the smaller of a time, 0 if there is none yet, and another.
func least(known, t float64) float64 {
	if known == 0 {
		return t
	}
	return min(known, t)
}

// improve replaces the rates of a setup by those of another measurement where they are better.
func (r *Races) improve(k int, by Setup) {
	better := r.Setups[k].Rates.best(by.Rates)
	m := r.Setups[k].Machine
	for i := range m.Rates {
		if m.Rates[i].Threads == better.Threads {
			m.Rates[i] = better
		}
	}
	r.Setups[k].Rates = better
}

// racesFile is the form of races in a file: each operation and step is an array on a line of its own.
type racesFile struct {
	Format   int               `json:"format"`
	Machines []*Machine        `json:"machines"`
	Setups   []setupLine       `json:"setups"`
	Kinds    []string          `json:"kinds"`    // class before "/"
	Ops      []json.RawMessage `json:"ops"`      // [kind, shape, amounts, values, microseconds by setup]
	Programs []json.RawMessage `json:"programs"` // producers; steps of several sizes and threads share them
	Steps    []json.RawMessage `json:"steps"`    // [network, phase, ops, microseconds by setup, program]
	Variants []json.RawMessage `json:"variants"` // [key, work, microseconds by setup]
	Tunings  []json.RawMessage `json:"tunings"`  // [network, variants]
}

// setupLine is a setup in a file.
type setupLine struct {
	Machine   int    `json:"machine"`
	Threads   int    `json:"threads"`
	Precision string `json:"precision"`
}

// racesFormat is the version of files of races.
const racesFormat = 2

// Write writes races as JSON that is compared line by line.
func (r *Races) Write(w io.Writer) error {
	f := racesFile{Format: racesFormat}
	kinds := map[string]int{}
	for _, o := range r.Ops {
		kinds[o.Kind] = 0
	}
	f.Kinds = slices.Sorted(maps.Keys(kinds))
	for i, k := range f.Kinds {
		kinds[k] = i
	}
	for _, s := range r.Setups {
		at := slices.Index(f.Machines, s.Machine)
		if at < 0 {
			at = len(f.Machines)
			f.Machines = append(f.Machines, s.Machine)
		}
		f.Setups = append(f.Setups, setupLine{at, s.Rates.Threads, s.Precision})
	}
	for _, o := range r.Ops {
		f.Ops = append(f.Ops, line(kinds[o.Kind], o.Shape, digits(o.Amounts[:], 1), o.Values, digits(o.Times, 1e6)))
	}
	for _, s := range r.Steps {
		f.Steps = append(f.Steps, line(s.Network, s.Phase, s.Ops, digits(s.Times, 1e6), f.program(s.Producers)))
	}
	for _, v := range r.Variants {
		f.Variants = append(f.Variants, line(v.Key, v.Work, digits(v.Times, 1e6)))
	}
	for _, t := range r.Tunings {
		f.Tunings = append(f.Tunings, line(t.Network, t.Variants))
	}
	return f.write(w)
}

// program returns the place of producers among the programs, to which they are added if they are unknown.
func (f *racesFile) program(p Producers) int {
	row := rows([]Producers{p})[0]
	at := slices.IndexFunc(f.Programs, func(o json.RawMessage) bool { return bytes.Equal(o, row) })
	if at < 0 {
		at = len(f.Programs)
		f.Programs = append(f.Programs, row)
	}
	return at
}

// line is a row of a table.
func line(values ...any) json.RawMessage {
	text, err := json.Marshal(values)
	if err != nil {
		panic(fmt.Sprintf("cost: encode %v: %v", values, err)) // it has only finite numbers and strings
	}
	return text
}

// digits multiplies values and keeps four digits: clocks are not better.
func digits(values []float64, by float64) []json.Number {
	out := make([]json.Number, len(values))
	for i, v := range values {
		short, _ := strconv.ParseFloat(strconv.FormatFloat(by*v, 'g', 4, 64), 64)
		out[i] = json.Number(strconv.FormatFloat(short, 'g', -1, 64))
	}
	return out
}

// write writes each row on a line.
func (f racesFile) write(w io.Writer) error {
	var b bytes.Buffer
	head, err := json.Marshal(f.Machines)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "{\"format\": %d,\n\"machines\": %s,\n", f.Format, head)
	for _, part := range []struct {
		name string
		rows []json.RawMessage
	}{{"setups", rows(f.Setups)}, {"kinds", rows(f.Kinds)}, {"ops", f.Ops}, {"programs", f.Programs}, {"steps", f.Steps}, {"variants", f.Variants}, {"tunings", f.Tunings}} {
		fmt.Fprintf(&b, "%q: [\n%s\n]", part.name, bytes.Join(rawLines(part.rows), []byte(",\n")))
		if part.name != "tunings" {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString("}\n")
	_, err = w.Write(b.Bytes())
	return err
}

// rows encodes each value.
func rows[T any](values []T) (out []json.RawMessage) {
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("cost: encode %v: %v", v, err))
		}
		out = append(out, text)
	}
	return out
}

// rawLines converts the type of rows.
func rawLines(rows []json.RawMessage) (out [][]byte) {
	for _, r := range rows {
		out = append(out, r)
	}
	return out
}

// ParseRaces decodes what Write wrote.
//
// Errors: text that is no such file.
func ParseRaces(text []byte) (*Races, error) {
	var f racesFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	if f.Format != racesFormat {
		return nil, fmt.Errorf("cost: races of format %d, want %d", f.Format, racesFormat)
	}
	r := &Races{}
	for _, s := range f.Setups {
		if s.Machine < 0 || s.Machine >= len(f.Machines) {
			return nil, fmt.Errorf("cost: no machine %d", s.Machine)
		}
		if err := f.Machines[s.Machine].check(); err != nil {
			return nil, fmt.Errorf("cost: machine %d: %w", s.Machine, err)
		}
		setup, err := f.Machines[s.Machine].Setup(s.Threads, s.Precision)
		if err != nil {
			return nil, err
		}
		r.Setups = append(r.Setups, setup)
	}
	for i, row := range f.Ops {
		var o Race
		kind := 0
		if err := parseRow(row, &kind, &o.Shape, &o.Amounts, &o.Values, &o.Times); err != nil || kind < 0 || kind >= len(f.Kinds) || len(o.Times) != len(r.Setups) {
			return nil, fmt.Errorf("cost: operation %d: %s: %v", i, row, err)
		}
		o.Kind = f.Kinds[kind]
		o.Class = classOf(o.Kind)
		scale(o.Times, 1e-6)
		r.Ops = append(r.Ops, o)
	}
	for i, row := range f.Steps {
		var s StepRace
		program := 0
		if err := parseRow(row, &s.Network, &s.Phase, &s.Ops, &s.Times, &program); err != nil || len(s.Times) != len(r.Setups) ||
			slices.ContainsFunc(s.Ops, func(k int) bool { return k < 0 || k >= len(r.Ops) }) || program < 0 || program >= len(f.Programs) {
			return nil, fmt.Errorf("cost: step %d: %s: %v", i, row, err)
		}
		if err := s.parseProducers(f.Programs[program]); err != nil {
			return nil, fmt.Errorf("cost: step %d, program %d: %w", i, program, err)
		}
		scale(s.Times, 1e-6)
		r.Steps = append(r.Steps, s)
	}
	return r, r.parseVariants(f)
}

// parseProducers decodes the producers of the step's operands, which run before their readers.
func (s *StepRace) parseProducers(text json.RawMessage) error {
	if err := json.Unmarshal(text, &s.Producers); err != nil {
		return err
	}
	if len(s.Producers) > len(s.Ops) {
		return fmt.Errorf("%d operations of a step of %d", len(s.Producers), len(s.Ops))
	}
	for i, from := range s.Producers {
		if slices.ContainsFunc(from, func(k int) bool { return k < -1 || k >= i }) {
			return fmt.Errorf("operation %d reads the results of %v", i, from)
		}
	}
	return nil
}

// parseRow decodes an array of values of different types.
func parseRow(row json.RawMessage, to ...any) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(row, &parts); err != nil {
		return err
	}
	if len(parts) != len(to) {
		return fmt.Errorf("%d values, want %d", len(parts), len(to))
	}
	for i, p := range parts {
		if err := json.Unmarshal(p, to[i]); err != nil {
			return err
		}
	}
	return nil
}

// scale multiplies values.
func scale(values []float64, by float64) {
	for i := range values {
		values[i] *= by
	}
}
