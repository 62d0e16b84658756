package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/cost"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// RaceCases are the networks whose operations and steps are measured for package cost.
func RaceCases() (all []Case) {
	add := func(model string, base int, sizes ...setup.Crop) {
		for _, s := range sizes {
			all = append(all, Case{Model: model, Base: base, Crop: s, Batch: 1})
		}
	}
	small, wide, square := setup.Crop{Height: 32, Width: 64}, setup.Crop{Height: 64, Width: 128}, setup.Crop{Height: 128, Width: 128}
	add(BenchUNet3D, 8, small, wide, square)
	add(BenchUNet3D, 16, small, wide)
	add(BenchUNet3D, 32, small)
	add(BenchResNet2D, 8, small, wide)
	add(BenchResNet2D, 32, small)
	add(BenchFactorised, 8, small, wide)
	add(BenchFactorised, 16, small)
	add(BenchUNet2D, 16, wide)
	return all
}

// UnseenCase is a network that is no part of RaceCases. The order in which kernels are timed is tested on it.
var UnseenCase = Case{Model: BenchUNet3D, Base: 24, Crop: setup.Crop{Height: 96, Width: 96}, Batch: 1}

// Runs of a step whose least times count.
const (
	raceTime = 900 * time.Millisecond
	raceRuns = 5 // at least
)

// raceRounds is the number of runs of a variant of a kernel of which the least time counts.
const raceRounds = 10

// AddRaces measures this machine, and with each number of threads the steps of RaceCases, their operations and all variants of their
// kernels, also those of UnseenCase. It adds them to a file of races, which is made if there is none.
//
// Cost: a minute for each number of threads and precision.
// Errors: exit 65 for a file that holds no races; those of MeasureMachine.
func AddRaces(ctx context.Context, path, precision string) error {
	engine, ok := benchPrecisions[precision]
	if !ok {
		return (&Case{Precision: precision}).check()
	}
	races := &cost.Races{}
	text, err := filesystem.ReadFile(path)
	if err == nil {
		if races, err = cost.ParseRaces(text); err != nil {
			return &exit.Error{Code: exit.BadData, What: "the file holds no races", At: path, Why: err.Error(), Fix: "give another name, or remove the file", Err: err}
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return exit.ReadError(path, err)
	}
	m, err := MeasureMachine(ctx)
	if err != nil {
		return err
	}
	cases := append(RaceCases(), UnseenCase)
	task := progress.Start(ctx, "races", int64(len(m.Rates)*len(cases)))
	defer task.Done()
	for i, r := range m.Rates {
		s, err := m.Setup(r.Threads, engine)
		if err != nil {
			return err
		}
		var steps []cost.MeasuredStep
		for k, c := range cases {
			c.Threads, c.Precision = r.Threads, precision
			if err := c.check(); err != nil {
				return err
			}
			task.Set(int64(i*len(cases)+k), c.String())
			if err := c.addTuning(races, s); err != nil {
				return err
			}
			if c.network() == UnseenCase.network() {
				continue
			}
			for _, phase := range []Phase{BenchTrain, BenchPredict} {
				step, err := c.race(ctx, phase)
				if err != nil {
					return err
				}
				steps = append(steps, step)
			}
		}
		races.Add(s, steps)
	}
	var b bytes.Buffer
	if err := races.Write(&b); err != nil {
		return err
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, b.Bytes()))
}

// network is the name of the case among races.
func (k Case) network() string { return fmt.Sprintf("%s %d %v", k.Model, k.Base, k.Crop) }

// addTuning adds the times of all variants of the kernels of a step and a prediction.
func (k Case) addTuning(races *cost.Races, s cost.Setup) error {
	dir, err := filesystem.MkdirTemp("", "timings")
	if err != nil {
		return exit.CreateError(os.TempDir(), err)
	}
	defer filesystem.RemoveAll(dir)
	table := tune.Open(dir, cpu.Machine(k.Threads), nil)
	table.TimeAll(raceRounds)
	if err := k.tune(table); err != nil {
		return err
	}
	return races.AddTuning(s, k.network(), table.All(), cpu.VariantWork)
}

// tune times the kernels of a step and a prediction that a table does not know.
func (k Case) tune(table *tune.Table) error {
	for _, train := range []bool{true, false} {
		o := k.Options(false)
		o.Timings = table
		step, err := k.compile(train, o)
		if err != nil {
			return err
		}
		if err := step.Close(); err != nil {
			return err
		}
	}
	return nil
}

// race measures one step and its operations. Of several runs the least time of each counts: other processes only add to times.
func (k Case) race(ctx context.Context, phase Phase) (m cost.MeasuredStep, err error) {
	step, err := k.Compile(phase == BenchTrain, true)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, step.Close()) }()
	m = cost.MeasuredStep{Step: step.Work(), Network: k.network(), Phase: string(phase)}
	m.Time, m.OpTimes = math.Inf(1), slices.Repeat([]float64{math.Inf(1)}, len(m.Ops))
	begin := time.Now()
	for n := 0; n < raceRuns || time.Since(begin) < raceTime; n++ {
		r, err := step.record(ctx, Request{Phase: phase})
		if err != nil {
			return m, err
		}
		m.Time = min(m.Time, (r.Graph + r.Optimizer).Seconds())
		for i, o := range r.Kernels {
			m.OpTimes[i] = min(m.OpTimes[i], o.Duration.Seconds())
		}
		if step.opt != nil {
			m.OpTimes[len(r.Kernels)] = min(m.OpTimes[len(r.Kernels)], r.Optimizer.Seconds())
		}
	}
	return m, nil
}

// Work counts the work of the step, with Adam's update at its end.
func (s *Step) Work() cost.Step {
	w := cost.StepOf(s.plan)
	if s.opt != nil {
		w.Ops = append(w.Ops, cost.UpdateWork(int64(s.plan.Store().ParamCount()), setup.Adam.State))
	}
	return w
}

// MemoryBytes is the memory of the step: values, workspace, parameters and, in training, gradients and Adam's moments.
func (s *Step) MemoryBytes() int64 {
	parameters := int64(s.plan.Store().ParamCount())
	if s.opt == nil {
		return s.plan.MemoryBytes() + 4*parameters
	}
	return s.plan.MemoryBytes() + setup.Adam.Bytes(parameters)
}

// String describes the case of the step.
func (s *Step) String() string { return s.of.String() }
