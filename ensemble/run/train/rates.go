package train

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Schedules are the learning rates of all steps of a training.
type Schedules struct {
	Networks []NetworkSchedule `json:"networks"`
	Warnings []string          `json:"-"` // those of a training about its schedule
}

// NetworkSchedule is the schedule of networks that have the same one. Steps count from 1.
type NetworkSchedule struct {
	Networks        []string  `json:"networks"` // their names
	Schedule        string    `json:"schedule"` // train.schedule
	Initialisations int       `json:"initialisations"`
	Epochs          int       `json:"epochs"`
	StepsPerEpoch   int       `json:"steps_per_epoch"`
	WarmupSteps     int       `json:"warmup_steps"`
	Rates           []float64 `json:"rates"` // of each step, if training does not end early
	Notes           []string  `json:"notes,omitempty"`
}

// ReadSchedules computes the learning rate of every step of a configuration.
//
// Reads: the indexes of the forecast files, or the sample store.
// Errors: exit 64 for a schedule that the training refuses; 65 and 66 for files.
func ReadSchedules(ctx context.Context, c *config.TrainConfig) (*Schedules, error) {
	split, err := samples.ReadSplit(ctx, c)
	if err != nil {
		return nil, err
	}
	return schedules(c, split)
}

// scheduled returns what a schedule depends on, and warnings about it. Nothing is read.
//
// Errors: exit 64.
func scheduled(c *config.TrainConfig, split ensemble.Split) (j *job, warnings []string, err error) {
	base := setup.ResolveTraining(c.Train.Train, nil)
	trainings, _, err := setup.NetworkTrainings(setup.SpecOf(c), base, split.Train, setup.LastTarget(c))
	if err != nil {
		return nil, nil, err
	}
	j = &job{base: base, trainings: trainings, data: &samples.Data{Split: split}}
	j.data.Train.Inits, j.data.Validation.Inits = split.Train, split.Validation
	warnings, err = j.checkSchedules()
	return j, warnings, err
}

// schedules is ReadSchedules with a known split.
func schedules(c *config.TrainConfig, split ensemble.Split) (*Schedules, error) {
	j, warnings, err := scheduled(c, split)
	if err != nil {
		return nil, err
	}
	out := &Schedules{Warnings: warnings}
	for i, n := range j.trainings {
		s := j.networkSchedule(n)
		if last := len(out.Networks) - 1; last >= 0 && sameSchedule(out.Networks[last], s) {
			out.Networks[last].Networks = append(out.Networks[last].Networks, n.Name(i))
			continue
		}
		s.Networks = []string{n.Name(i)}
		out.Networks = append(out.Networks, s)
	}
	return out, nil
}

// sameSchedule reports whether two schedules differ in the names of their networks at most.
func sameSchedule(a, b NetworkSchedule) bool {
	a.Networks = b.Networks
	return reflect.DeepEqual(a, b)
}

// networkSchedule returns the schedule of a network without its name.
func (j *job) networkSchedule(n setup.NetworkTraining) NetworkSchedule {
	c := n.Config
	s := NetworkSchedule{Schedule: c.Schedule, Initialisations: j.sampleCount(n), Epochs: c.Epochs, StepsPerEpoch: j.stepCount(j.batchCount(n)), WarmupSteps: c.Warmup}
	rate := schedule(c, uint64(s.StepsPerEpoch), &optim.PlateauState{})
	for i := range s.Epochs * s.StepsPerEpoch {
		s.Rates = append(s.Rates, rate.Rate(uint64(i)))
	}
	if c.Schedule == "plateau" {
		s.Notes = append(s.Notes, "plateau: the largest possible rates are shown; when they fall depends on the validation loss")
	}
	switch patience := c.EarlyStop.Patience; {
	case n.Phase == setup.Pretraining:
		s.Notes = append(s.Notes, "members verify the pre-training: all its epochs are trained, and the fine-tuning begins with its last weights")
	case len(j.data.Validation.Inits) == 0:
		s.Notes = append(s.Notes, "without validation initialisations all epochs are trained, and the last weights are kept")
	case patience == 0:
		s.Notes = append(s.Notes, "train.early_stop.patience is 0: all epochs are trained")
	default:
		s.Notes = append(s.Notes, fmt.Sprintf("training ends earlier after %d epochs without better validation loss", patience))
	}
	return s
}

// checkSchedules refuses schedules that cannot do what they promise, and returns warnings about settings that do not fit the
// length of the training.
//
// Errors: exit 64.
func (j *job) checkSchedules() (warnings []string, err error) {
	for i, n := range j.trainings {
		c, count := n.Config, j.sampleCount(n)
		perEpoch := j.stepCount(j.batchCount(n))
		steps := c.Epochs * perEpoch
		epochs := "train.epochs"
		if n.Phase == setup.Pretraining {
			epochs = "train.pretrain.epochs"
		}
		if c.Warmup >= steps {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the warm-up of %d steps does not end before the training", c.Warmup), At: "train.warmup",
				Why: fmt.Sprintf("%s takes %s (epochs: %d, steps in each: %d), so that train.learning_rate would never be kept", n.Name(i), humanise.Count(steps, "step"), c.Epochs, perEpoch),
				Fix: fmt.Sprintf("set train.warmup to %d or less, or %s to %d or more", max(0, steps-1), epochs, c.Warmup/perEpoch+1)}
		}
		if c.Schedule == "plateau" && len(j.data.Validation.Inits) == 0 {
			return nil, &exit.Error{Code: exit.Usage, What: "train.schedule: plateau without validation initialisations", At: "train.schedule",
				Why: "its rate follows the validation loss, so that it would never fall", Fix: "set data.split.validation, or train.schedule: cosine"}
		}
		if slow := slowAverage(n, perEpoch); slow != "" && !slices.Contains(warnings, slow) {
			warnings = append(warnings, slow)
		}
		if c.BatchSize > count {
			warnings = append(warnings, fmt.Sprintf("train.batch_size is %d, but %s is trained on %d initialisations: every step uses all of them", c.BatchSize, n.Name(i), count))
		}
		if i > 0 && len(warnings) > 0 && n.Stage == j.trainings[i-1].Stage { // the same again
			break
		}
	}
	if v := j.data.Validation.Inits; len(v) == 1 {
		warnings = append(warnings, fmt.Sprintf("the validation loss is that of one initialisation, %s: best weights, early stopping and train.schedule: plateau follow the error of a single forecast", v[0]))
	}
	return warnings, nil
}

// Size of a plot in characters.
const (
	plotColumns = 64
	plotRows    = 10
)

// plot draws the rates over the steps. Each column shows the range of its steps.
func (s NetworkSchedule) plot() []string {
	top := 0.0
	for _, r := range s.Rates {
		top = math.Max(top, r)
	}
	if top == 0 {
		return nil
	}
	columns := min(plotColumns, len(s.Rates))
	grid := make([][]byte, plotRows+1)
	for i := range grid {
		grid[i] = []byte(strings.Repeat(" ", columns))
	}
	row := func(rate float64) int { return int(math.Round(rate / top * plotRows)) }
	for x := range columns {
		lo, hi := plotRows, 0
		for _, r := range s.Rates[x*len(s.Rates)/columns : (x+1)*len(s.Rates)/columns] {
			lo, hi = min(lo, row(r)), max(hi, row(r))
		}
		for y := lo; y <= hi; y++ {
			grid[y][x] = '*'
		}
	}
	var lines []string
	for y := plotRows; y >= 0; y-- {
		label := ""
		if y%(plotRows/2) == 0 {
			label = fmt.Sprintf("%.3g", top*float64(y)/plotRows)
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%9s |%s", label, grid[y]), " "))
	}
	right := fmt.Sprint(len(s.Rates))
	return append(lines, fmt.Sprintf("%9s +%s", "", strings.Repeat("-", columns)), fmt.Sprintf("%9s  %-*s%s", "step", max(2, columns-len(right)), "1", right))
}

// Sections implements answer.Sectioned.
func (s *Schedules) Sections() answer.Sections {
	var out answer.Sections
	for _, n := range s.Networks {
		name := n.Networks[0]
		if last := n.Networks[len(n.Networks)-1]; last != name {
			name += " to " + strings.TrimPrefix(last, "network ")
		}
		length := fmt.Sprintf("%s: %s, %s of %d, on %s", n.Schedule, humanise.Count(len(n.Rates), "step"), humanise.Count(n.Epochs, "epoch"), n.StepsPerEpoch, humanise.Count(n.Initialisations, "initialisation"))
		if n.WarmupSteps > 0 {
			length += fmt.Sprintf("; the rate rises until step %d", n.WarmupSteps)
		}
		x := answer.Section{Title: "Learning rate of " + name, Text: append([]string{length, ""}, n.plot()...), Notes: n.Notes,
			Columns: []answer.Column{answer.NumberColumn("step", "", "%d"), answer.NumberColumn("epoch", "", "%d"), answer.NumberColumn("rate", "", "%.4g")}}
		for i := range n.Rates { // about 20 rows, with the ends of epochs if they are few
			every := max(1, (n.Epochs+19)/20) * n.StepsPerEpoch
			if i == 0 || i+1 == n.WarmupSteps || (i+1)%every == 0 || i+1 == len(n.Rates) {
				x.Rows = append(x.Rows, []any{i + 1, i/n.StepsPerEpoch + 1, n.Rates[i]})
			}
		}
		out = append(out, x)
	}
	return out
}
