package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/cost"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// TimeOptions select the step and the machine of [Time].
type TimeOptions struct {
	Config      *config.TrainConfig // nil: the default case of `ensemble bench`
	Crop        setup.Crop          // size of the field; zero: grid of the forecast files
	MachineFile string              // written by `ensemble bench --machine`
}

// TimeResult are predicted times of a training step and a prediction on another machine.
type TimeResult struct {
	Predicted bool      `json:"predicted"` // always true: nothing is measured
	Network   string    `json:"network"`
	CPU       string    `json:"cpu"`
	ISA       string    `json:"isa"`
	Threads   int       `json:"threads"`
	Precision string    `json:"precision"`
	Train     PhaseTime `json:"train"`
	Predict   PhaseTime `json:"predict"`
	// Band is the error of predicted steps on machines that the fit did not see.
	Band cost.Band `json:"band"`
	// MachineMemory is that of the machine; 0: unknown.
	MachineMemory int64 `json:"machine_memory_bytes"`
}

// PhaseTime is the time of a training step or a prediction.
type PhaseTime struct {
	cost.Prediction
	Low    float64 `json:"low_s"`  // 95 % of steps take this time or more
	High   float64 `json:"high_s"` // and this time or less; 0: unknown
	Memory int64   `json:"memory_bytes"`
}

// Time predicts a training step and a prediction. Both are compiled here, but not run. Memory is that of a process without samples:
// program, parameters, state of the optimiser, values and workspace.
//
// Reads: the index of the forecast files, unless Crop is given.
// Errors: exit 64 for a device that is no processor and for more threads than the machine was measured with; 65 for a file that describes
// no machine; those of engine.Compile; 65 and 66 for the forecast files.
func Time(ctx context.Context, o TimeOptions) (*TimeResult, error) {
	m, err := cost.ReadMachine(o.MachineFile)
	if err != nil {
		return nil, err
	}
	p := &timing{model: cost.Fitted(), machine: m}
	r := &TimeResult{Predicted: true, CPU: m.CPU, ISA: m.ISA, MachineMemory: m.Memory, Band: p.model.Band}
	if o.Config == nil {
		return r, p.standardCase(r)
	}
	for _, mode := range []string{"predict", "train"} {
		e := explain.Options{Config: o.Config, Crop: o.Crop, Mode: mode, Threads: o.Config.Train.Train.Threads}
		if err := e.Check(); err != nil {
			return nil, err
		}
		grid, err := e.Grid(ctx)
		if err != nil {
			return nil, err
		}
		s := e.Subject()
		if s.Options.Backend != "" && s.Options.Backend != "cpu" {
			return nil, &exit.Error{Code: exit.Usage, What: "times on another machine are predicted for processors only", At: "train.device: " + s.Options.Backend,
				Fix: "add --set train.device=cpu"}
		}
		if p.setup, err = m.Setup(o.Config.Train.Train.Threads, cmp.Or(s.Options.Precision, "f32")); err != nil {
			return nil, err
		}
		s.Options.Threads, s.Options.Timings = p.setup.Rates.Threads, nil
		g, err := s.Spec.Graph(&s.Task, grid, s.Batch, s.Seed, s.Loss)
		if err != nil {
			return nil, err
		}
		plan, err := engine.Compile(g, s.Options)
		if err != nil {
			return nil, err
		}
		step, parameters := cost.StepOf(plan), int64(plan.Store().ParamCount())
		memory := plan.MemoryBytes()
		if err := plan.Close(); err != nil {
			return nil, err
		}
		if mode == "predict" {
			r.Predict = p.phase(step, memory+4*parameters)
			continue
		}
		optimiser, err := setup.OptimiserOf(&o.Config.Train.Train, g)
		if err != nil {
			return nil, err
		}
		step.Ops = append(step.Ops, cost.UpdateWork(parameters, optimiser.State))
		r.Train = p.phase(step, memory+optimiser.Bytes(parameters))
		r.Network = s.Describe(grid)
	}
	r.Threads, r.Precision = p.setup.Rates.Threads, p.setup.Precision
	return r, nil
}

// timing predicts steps on one machine.
type timing struct {
	model   *cost.Model
	machine *cost.Machine
	setup   cost.Setup
}

// standardCase predicts the default case of `ensemble bench`.
func (p *timing) standardCase(r *TimeResult) (err error) {
	if p.setup, err = p.machine.Setup(0, "f32"); err != nil {
		return err
	}
	r.Threads, r.Precision = p.setup.Rates.Threads, p.setup.Precision
	c := bench.Case{Base: 32, Crop: setup.Crop{Height: 128, Width: 128}, Batch: 1, Threads: r.Threads}
	for _, train := range []bool{true, false} {
		s, err := c.Compile(train, false)
		if err != nil {
			return err
		}
		phase := p.phase(s.Work(), s.MemoryBytes())
		if err := s.Close(); err != nil {
			return err
		}
		if train {
			r.Train = phase
		} else {
			r.Predict = phase
		}
		r.Network = s.String()
	}
	return nil
}

// phase predicts time and memory of a step.
func (p *timing) phase(step cost.Step, memory int64) PhaseTime {
	t := PhaseTime{Prediction: p.model.Predict(p.setup, step), Memory: setup.StepMemory(memory)}
	t.Low, t.High = p.model.Band.Interval(t.Seconds)
	return t
}

// Sections returns the prediction as text.
func (r *TimeResult) Sections() answer.Sections {
	s := answer.Section{Title: fmt.Sprintf("On %s (%s, %s), predicted", doctor.OrUnknown(r.CPU), r.ISA, humanise.Count(r.Threads, "thread")), Text: []string{r.Network},
		Columns: slices.Concat(answer.TextColumns("", "time", "between"), answer.NumberColumns("%.0f", "MiB"))}
	for _, p := range []struct {
		name string
		time PhaseTime
	}{{"training step", r.Train}, {"prediction", r.Predict}} {
		s.Rows = append(s.Rows, []any{p.name, about(p.time.Seconds), about(p.time.Low) + " and " + about(p.time.High), mib(p.time.Memory)})
		if p.time.Unknown >= 0.01 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: %.0f %% of the time is in operations that were not measured", p.name, 100*p.time.Unknown))
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("half of %d steps on machines that the fit did not see were predicted within %.0f %%, 95 %% of them within %.0f %%",
		r.Band.Steps, 100*r.Band.Median, 100*r.Band.P95))
	if r.MachineMemory > 0 && r.Train.Memory > r.MachineMemory {
		s.Notes = append(s.Notes, fmt.Sprintf("the machine has only %.0f MiB: set train.memory, or lower train.batch_size", mib(r.MachineMemory)))
	}
	classes := answer.Section{Columns: slices.Concat(answer.TextColumns("class"), answer.NumberColumns("%.3f", "training step ms", "prediction ms"))}
	for _, c := range slices.Sorted(maps.Keys(r.Train.Classes)) {
		classes.Rows = append(classes.Rows, []any{c, 1e3 * r.Train.Classes[c], 1e3 * r.Predict.Classes[c]})
	}
	return answer.Sections{s, classes}
}
