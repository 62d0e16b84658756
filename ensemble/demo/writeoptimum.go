package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// OptimumYear is the file set of the initialisations of one year.
type OptimumYear struct {
	Year      int
	Forecasts []string // GRIB2, one file per initialisation time
	Oracle    []string // the same; none before the test years
	Analyses  string   // NetCDF, of all valid times of these initialisations
}

// WriteOptimum generates some years of the benchmark into the folder dir, which must exist:
// optimum_fc_2001010100.grib2 for each initialisation time, optimum_or_2023010200.grib2 for those with an oracle,
// optimum_an_2001.nc for the analyses of each year. finished receives each year after its last file is written.
//
// Errors: those of GenerateOptimum, w and finished. Files that are already written are kept.
func WriteOptimum(ctx context.Context, o Optimum, dir string, years []int, w Writer, finished func(OptimumYear) error) error {
	var set OptimumYear
	var analyses []*ensemble.Analysis
	flush := func() error {
		if len(analyses) == 0 {
			return nil
		}
		slices.SortFunc(analyses, func(a, b *ensemble.Analysis) int { return a.Valid.Compare(b.Valid.Time) })
		set.Analyses = filepath.Join(dir, fmt.Sprintf("optimum_an_%04d.nc", set.Year))
		if err := w.WriteAnalyses(ctx, set.Analyses, analyses); err != nil {
			return err
		}
		analyses = nil
		return finished(set)
	}
	err := GenerateOptimum(ctx, o, years, func(c *OptimumCase) error {
		if year := c.Forecast.Init.Year(); year != set.Year {
			if err := flush(); err != nil {
				return err
			}
			set = OptimumYear{Year: year}
		}
		write := func(list *[]string, kind string, f *ensemble.Forecast) error {
			*list = append(*list, filepath.Join(dir, "optimum_"+kind+"_"+f.Init.Format("2006010215")+".grib2"))
			return w.WriteEnsembleGRIB2(ctx, (*list)[len(*list)-1], f)
		}
		analyses = append(analyses, c.Analyses...)
		if c.Oracle != nil {
			if err := write(&set.Oracle, "or", c.Oracle); err != nil {
				return err
			}
		}
		return write(&set.Forecasts, "fc", c.Forecast)
	})
	if err != nil {
		return err
	}
	return flush()
}

// OptimumCost is the work that some years of the benchmark need.
type OptimumCost struct {
	Cases, Oracles int           // cases, and those with an oracle
	Steps          int64         // of the models
	Fields         int64         // written
	Processor      time.Duration // processor time, from the time of a step, which is measured, and of a field
	Bytes          int64         // of the files
}

// Measured means of a field in a file: bytes with header, and processor time of encoding and writing.
const (
	gribFieldBytes   = 3460
	netcdfFieldBytes = 6900
	fieldEncoding    = 350 * time.Microsecond
)

// Cost predicts the work for some years. It measures a few steps of the model.
//
// Errors: those of o.WithDefaults.
func (o Optimum) Cost(years []int) (c OptimumCost, err error) {
	if o, err = o.WithDefaults(); err != nil || len(years) == 0 {
		return c, err
	}
	w, err := newOptimumWorld(o)
	if err != nil {
		return c, err
	}
	var members int64
	for _, y := range years {
		from, to := w.casesOf(y)
		c.Cases += to - from
		members += int64(to-from) * int64(w.membersOf(from))
		if o.hasOracle(y) {
			c.Oracles += to - from
		}
	}
	const perBreeding = int64(breedingDays * stepsPerDay)
	ahead := int64(time.Duration(o.Leads[len(o.Leads)-1])/cycleLength) * stepsPerCycle
	_, last := w.casesOf(slices.Max(years))
	c.Steps = int64(spinUpDays+assimilationSpinUpDays)*stepsPerDay + int64(w.offset(last-1))*stepsPerCycle
	draws := int64(c.Cases + c.Oracles*o.OracleMembers)
	c.Steps += int64(c.Cases)*(1+bredVectors)*perBreeding + members*ahead + int64(c.Cases)*perBreeding + draws*(perBreeding+ahead)
	perState := int64(len(Variables) * len(Levels))
	analyses := int64(c.Cases*len(o.Leads)) * perState
	grib := (members + int64(c.Oracles*o.OracleMembers)) * int64(len(o.Leads)) * perState
	c.Fields, c.Bytes = analyses+grib, analyses*netcdfFieldBytes+grib*gribFieldBytes
	perStep, perField := w.measure()
	c.Processor = time.Duration(c.Steps)*perStep + time.Duration(c.Fields)*(perField+fieldEncoding)
	return c, nil
}

// measure measures a step of the model and the transforms of a field.
func (w *optimumWorld) measure() (perStep, perField time.Duration) {
	const steps, states = 2 * stepsPerDay, 8
	g, fields := w.natural.integrator(), newFieldMaker()
	var q, psi state
	noise(&psi, stream(0, forSpinUp, 0), seedPeak, 0.5)
	g.vorticity(&q, &psi)
	began := time.Now()
	g.run(&q, 0, steps)
	perStep = time.Since(began) / steps
	a := ensemble.NewAnalysis(ensemble.Valid{}, Variables, Levels, w.grid)
	began = time.Now()
	for range states {
		fields.fill(a.Field, &psi)
	}
	return perStep, time.Since(began) / time.Duration(states*len(Variables)*len(Levels))
}
