package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// boundedComparison is a training step in a share of the memory that it takes where all values stay:
// with half of it, the sample is twice what that memory would hold.
type boundedComparison struct {
	Case    string `json:"case"`
	Backend string `json:"backend"`
	Network
	Share float64 `json:"share"` // of the memory: the smallest that was tried and suffices
	// Refused are shares with which there is no plan, whatever is computed again or moved.
	Refused []float64   `json:"refused"`
	Whole   boundedStep `json:"whole"`
	Less    boundedStep `json:"less"`
	Ratio   float64     `json:"ratio"` // of the times: the whole is the ideal
}

// boundedStep is the step under one bound.
type boundedStep struct {
	LimitBytes int64            `json:"limit_bytes"` // 0: none
	Bytes      int64            `json:"bytes"`       // that the plan takes
	MS         benchstats.Times `json:"train_ms"`
	CompileMS  float64          `json:"compile_ms"`
	Loss       float64          `json:"loss"`
	Kernels    int              `json:"kernels"` // more are run where values are computed again
}

// memory measures both. Where there is no plan with the share of the command line, tenths
// are added until there is one.
func memory(ctx context.Context, c *Options) (answer.Sectioned, error) {
	a := &boundedComparison{Case: c.Case, Backend: c.Backend, Network: c.Network, Refused: []float64{}}
	var err error
	if a.Whole, err = c.measureBounded(ctx, 0); err != nil {
		return nil, err
	}
	for tenths := int(10*c.Share + 0.5); ; tenths++ {
		a.Share = float64(tenths) / 10
		a.Less, err = c.measureBounded(ctx, int64(a.Share*float64(a.Whole.Bytes)))
		if err == nil {
			break
		}
		if exit.CodeOf(err) != exit.NoDevice || tenths >= 9 {
			return a, err
		}
		a.Refused = append(a.Refused, a.Share)
	}
	a.Ratio = a.Less.MS.Median / a.Whole.MS.Median
	return a, nil
}

// Sections are the report for people.
func (a *boundedComparison) Sections() answer.Sections {
	row := func(p boundedStep) string {
		return fmt.Sprintf("%.4g GB, %d kernels, %s", float64(p.Bytes)/1e9, p.Kernels, times(p.MS))
	}
	return a.facts(a.Backend, [2]string{"whole", row(a.Whole)}, [2]string{fmt.Sprintf("%g of it", a.Share), row(a.Less)}, [2]string{"ratio", fmt.Sprintf("%.3f of the times", a.Ratio)})
}

// measureBounded measures the step under a bound of memory.
func (c *Options) measureBounded(ctx context.Context, limit int64) (m boundedStep, err error) {
	o := c.options(c.Backend)
	o.Memory.Limit = limit
	start := time.Now()
	t, err := c.trainer(o, 1)
	if err != nil {
		return m, err
	}
	m.CompileMS = float64(time.Since(start)) / 1e6
	m.LimitBytes, m.Bytes = limit, t.plan.MemoryBytes()
	m.Kernels = len(t.plan.Movement(engine.Peaks{}))
	t.fill()
	m.MS, err = c.repeat(func() error { return t.stepPrefetched(ctx) })
	m.Loss = t.plan.Loss()
	return m, errors.Join(err, t.Close())
}
