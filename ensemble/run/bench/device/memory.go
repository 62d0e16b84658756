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

// boundedComparison compares a training step in a fraction of its memory with one in which all values are kept. With
// half of the memory a sample could be twice as large.
type boundedComparison struct {
	Case    string `json:"case"`
	Backend string `json:"backend"`
	Network
	Share float64 `json:"share"` // smallest tried fraction that suffices
	// Refused are fractions without a plan, even with recomputation and offload.
	Refused []float64   `json:"refused"`
	Whole   boundedStep `json:"whole"`
	Less    boundedStep `json:"less"`
	Ratio   float64     `json:"ratio"` // ratio of the times
}

// boundedStep is the step under one limit.
type boundedStep struct {
	LimitBytes int64            `json:"limit_bytes"` // 0: none
	Bytes      int64            `json:"bytes"`       // memory of the plan
	MS         benchstats.Times `json:"train_ms"`
	CompileMS  float64          `json:"compile_ms"`
	Loss       float64          `json:"loss"`
	Kernels    int              `json:"kernels"` // more run with recomputation
}

// memory measures both. If no plan exists for the requested fraction, it is increased by tenths.
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

// Sections returns the report as text.
func (a *boundedComparison) Sections() answer.Sections {
	row := func(p boundedStep) string {
		return fmt.Sprintf("%.4g GB, %d kernels, %s", float64(p.Bytes)/1e9, p.Kernels, times(p.MS))
	}
	return a.facts(a.Backend, [2]string{"whole", row(a.Whole)}, [2]string{fmt.Sprintf("%g of it", a.Share), row(a.Less)}, [2]string{"ratio", fmt.Sprintf("ratio of times %.3f", a.Ratio)})
}

// measureBounded measures the step under a memory limit.
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
