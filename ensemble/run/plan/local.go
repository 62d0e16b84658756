package plan

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// LocalTraining is the training on this machine, as one process. Rates are measured, times and memory predicted.
type LocalTraining struct {
	Threads       int     `json:"threads"`
	GFLOPs        float64 `json:"gflops"`
	GBs           float64 `json:"gb_s"`
	StepS         float64 `json:"step_s"`                 // seconds per step
	StepMemory    int64   `json:"step_memory_bytes"`      // of a step
	SampleMemory  int64   `json:"sample_memory_bytes"`    // of all samples; 0: read from a store, or unknown
	ScoreMemory   int64   `json:"score_memory_bytes"`     // of the scores of the test dates; 0: unknown
	Memory        int64   `json:"memory_bytes"`           // largest of the process, without its decoding children
	MachineMemory int64   `json:"machine_memory_bytes"`   // 0: unknown
	Fits          bool    `json:"fits"`                   // Memory is within MachineMemory
	Networks      int     `json:"networks,omitempty"`     // networks to train, one after the other
	Steps         int     `json:"steps,omitempty"`        // optimiser steps of all networks, without early stopping; 0: the samples are unknown
	Samples       int     `json:"samples,omitempty"`      // training samples
	TrainS        float64 `json:"train_s,omitempty"`      // seconds of all steps
	ValidationS   float64 `json:"validation_s,omitempty"` // seconds of validation after each epoch
}

// indexBytes is what Go uses for indexes, baselines and the compiled network.
const indexBytes = 20 << 20

// scoreValues and scoreBytes are what the scores of a training keep: numbers of four bytes for each point, target and test
// date, and the rest. Measured with the default baselines.
const (
	scoreValues = 48
	scoreBytes  = 18 << 20
)

// collected is the factor from the memory that is in use to that which Go holds before it collects garbage (GOGC 100).
const collected = 2

// forwardShare is the share of a step's time that a prediction with loss takes.
const forwardShare = 1. / 3

// measureLocal predicts the training on this machine. Without a grid of the data (Options.Crop) the number of steps is
// unknown.
//
// Errors: those of samples.Survey; exit 69 without a device.
func (c *planning) measureLocal(ctx context.Context, g *graph.Graph) (*LocalTraining, error) {
	config := c.o.Config
	plan, err := search.CostOf(ctx, g, c.machine, c.optimiser, nil)
	if errors.Is(err, graph.ErrShape) { // fields of such a batch are for several ranks
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := &LocalTraining{Threads: network.Threads(config.Train.Train.Threads), GFLOPs: c.machine.FLOPs / 1e9, GBs: c.machine.Bytes / 1e9, StepS: plan.Step.Seconds(), StepMemory: plan.Memory,
		MachineMemory: c.machine.Memory}
	if c.o.Crop == (setup.Crop{}) {
		split, bytes, err := samples.Survey(ctx, config, c.grid)
		if err != nil {
			return nil, err
		}
		base := config.Train.Train
		trainings, _, err := setup.NetworkTrainings(setup.SpecOf(config), base, split.Train, setup.LastTarget(config))
		if err != nil {
			return nil, err
		}
		l.SampleMemory, l.Samples = bytes, len(split.Train)
		targets := 0
		for _, t := range config.Data.Targets {
			targets += len(t.Levels) * len(config.Data.TargetLeads)
		}
		l.ScoreMemory = scoreBytes + scoreValues*4*int64(len(split.Test)*targets*c.grid.Size())
		for _, t := range trainings {
			count := len(split.Train)
			if t.Samples != nil {
				count = len(t.Samples)
			}
			batches := (count + base.BatchSize - 1) / base.BatchSize
			if t.Phase != setup.Pretraining {
				l.Networks++
			}
			l.Steps += t.Config.Epochs * ((batches + base.Accumulate - 1) / base.Accumulate)
			l.TrainS += float64(t.Config.Epochs*batches) * l.StepS
			l.ValidationS += float64(t.Config.Epochs*len(split.Validation)) * l.StepS / float64(base.BatchSize) * forwardShare
		}
	}
	l.Memory = l.memory()
	l.Fits = l.MachineMemory == 0 || l.Memory <= l.MachineMemory
	return l, nil
}

// memory is the largest memory of the process. The scores are computed after the training, when the memory of its steps is
// garbage.
func (l *LocalTraining) memory() int64 {
	return setup.ProgramBytes + collected*(indexBytes+l.SampleMemory+max(l.StepMemory, l.ScoreMemory))
}

// measureMachine measures this machine and the rates of its kernels.
func (c *planning) measureMachine(ctx context.Context) error {
	defer progress.Start(ctx, "measure this machine", 0).Done()
	threads := c.subject.Options.Threads
	peak, err := bench.MeasurePeak(ctx, threads)
	if err != nil {
		return err
	}
	rates := cpu.ConvRates(c.o.Timings.Open(threads))
	c.machine = setup.TypicalMachine
	c.machine.FLOPs, c.machine.Bytes = peak.Engine().FLOPs, peak.Engine().Bytes
	c.machine.Memory = doctor.SystemMemory().TotalBytes
	c.machine.ConvRate = func(v search.Conv) (float64, bool) {
		r, ok := rates[cpu.ConvPass(v)]
		return r, ok
	}
	c.describeMachine("nodes like this one, one rank each (measured); network assumed",
		fmt.Sprintf("times of %d convolutions measured on this machine, others from FLOPs and bytes at peak rates", len(rates)))
	return nil
}

// section describes the training on this machine.
func (l *LocalTraining) section() answer.Section {
	s := answer.Section{Title: fmt.Sprintf("On this machine (%s of %s, %.4g GFLOP/s, %.4g GB/s), predicted", humanise.Count(l.Threads, "thread"), humanise.Count(runtime.NumCPU(), "processor"), l.GFLOPs, l.GBs),
		Columns: answer.TextColumns("", "")}
	row := func(name, format string, args ...any) {
		s.Rows = append(s.Rows, []any{"  " + name, fmt.Sprintf(format, args...)})
	}
	if l.Steps > 0 {
		networks := ""
		if l.Networks > 1 {
			networks = fmt.Sprintf(" of %d networks", l.Networks)
		}
		row("time", "at least %s: %s%s of %s, validation %s; reading, baselines and scores come on top", about(l.TrainS+l.ValidationS), humanise.Count(l.Steps, "step"), networks, about(l.StepS), about(l.ValidationS))
	} else {
		row("time", "at least %s a step, %s for 1000 steps", about(l.StepS), about(1000*l.StepS))
	}
	memory := fmt.Sprintf("about %.0f MiB: a step %.0f", mib(l.Memory), mib(l.StepMemory))
	if l.SampleMemory > 0 {
		memory += fmt.Sprintf(", the samples %.0f", mib(l.SampleMemory))
	}
	if l.ScoreMemory > 0 {
		memory += fmt.Sprintf(", scores %.0f, garbage", mib(l.ScoreMemory))
	}
	if l.MachineMemory > 0 {
		memory += fmt.Sprintf("; the machine has %.0f", mib(l.MachineMemory))
	}
	row("memory", "%s", memory)
	if !l.Fits {
		row("", "too much: set train.memory, lower train.batch_size, or use a sample store (`ensemble data prepare`)")
	}
	return s
}

// about formats seconds for people.
func about(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
