package samples

import (
	"context"
	"errors"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
)

// InputTiming says how long the steps of this process waited for their batches, and where the
// starts came from.
type InputTiming struct {
	Steps  float64 `json:"steps_s"`
	Waited float64 `json:"waited_s"`
	Share  float64 `json:"waited_share"` // of the time of the steps
	// Memory, DiskCache, Peers (the memory of other ranks) and FileSystem count the starts that
	// came from there and their bytes; all came from memory if there is no store. FileSystem has
	// those that were read for other ranks too.
	Memory     loader.Count `json:"memory"`
	DiskCache  loader.Count `json:"disk_cache"`
	Peers      loader.Count `json:"peers"`
	FileSystem loader.Count `json:"file_system"`
}

// Data is what a training reads.
type Data struct {
	Axes                    ensemble.Axes
	Used, All               []ensemble.Member
	Grid                    *ensemble.Grid // of the whole fields
	Ranks                   *team.Team     // of which each has its slab of all starts
	Source                  *source
	Train, Validation, Test Examples // of the source
	Split                   ensemble.Split
	Inputs                  []manifest.File
	Origins                 []ensemble.Origin // of the forecasts; none where that is not known
	Warnings                []string

	Store      *store.Store     // nil where samples come from other files
	ValueCheck *storeValueStats // of its values, when all have been read; nil once that is so
}

// Close frees the samples.
func (d *Data) Close() error {
	var err error
	if d.Source != nil {
		err = d.Source.Close()
	}
	if d.Store != nil {
		err = errors.Join(err, d.Store.Close())
	}
	return err
}

// ReadData reads and divides everything a training needs. Of several ranks each reads
// its slab of all starts: which of them it will be given next, chance decides.
func ReadData(ctx context.Context, c *config.TrainConfig, forecastFiles, analysisFiles []string, ranks *team.Team) (*Data, error) {
	if c.Data.Store != "" {
		return openStore(ctx, c, ranks)
	}
	d := &Data{Axes: setup.ReadAxes(c), Ranks: ranks}
	in, err := fio.Open(ctx, forecastFiles, input.ReaderOptions(c, true))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m := c.Data.Members
	if d.Used, d.All, err = input.ChooseMembers(in.Catalogue().Members(), m.Use.List, m.Use.Count, m.Full, m.Control); err != nil {
		return nil, err
	}
	to, err := input.DestinationOf(ctx, c)
	if err != nil {
		return nil, err
	}
	wanted, err := input.SelectForecasts(in, d.Axes, d.All, to)
	if err != nil {
		return nil, err
	}
	d.Grid, d.Origins = wanted.Grid, ensemble.Origins(wanted.Entries)
	if err := setup.ArrangeOnMesh(ranks, c, d.Grid); err != nil {
		return nil, err
	}
	if err := wanted.CheckDuplicates(ctx, wanted.Inits); err != nil {
		return nil, err
	}
	forecasts, noticed, err := wanted.Read(ctx, wanted.Inits, ranks)
	if err != nil {
		return nil, err
	}
	d.Warnings = slices.Concat(d.Warnings, wanted.Warnings, noticed)
	if d.Split, err = setup.ApplySplit(c.Data.Split, wanted.Inits); err != nil {
		return nil, err
	}
	var warnings []string
	if warnings, err = d.Split.CheckLeaks(d.Axes.Leads, c.Data.TargetLeads); err != nil {
		return nil, err
	}
	d.Warnings = append(d.Warnings, warnings...)
	var held []*store.Sample
	for _, init := range SplitInits(d.Split) {
		held = append(held, &store.Sample{Forecast: forecasts[slices.Index(wanted.Inits, init)]})
	}
	if len(analysisFiles) > 0 {
		if err := d.readAnalyses(ctx, c, analysisFiles, held); err != nil {
			return nil, err
		}
	}
	d.AssignSamples(loader.NewInMemory(held, SampleBytes(held)), len(analysisFiles) > 0)
	return d, nil
}

// readAnalyses reads the analyses of all samples' target valid times.
func (d *Data) readAnalyses(ctx context.Context, c *config.TrainConfig, files []string, to []*store.Sample) error {
	in, err := fio.Open(ctx, files, input.ReaderOptions(c, false))
	if err != nil {
		return err
	}
	defer in.Close()
	var inits []ensemble.Init
	for _, s := range to {
		inits = append(inits, s.Forecast.Init)
	}
	valids := setup.ValidTimes(inits, c.Data.TargetLeads)
	wanted, err := input.SelectAnalyses(in, setup.TargetVariables(c), c.Data.Levels, input.Destination{Grid: d.Grid, How: setup.InterpolationOf(c), Fix: input.FixGrid}, valids)
	if err != nil {
		return err
	}
	all, noticed, err := wanted.Read(ctx, valids, d.Ranks)
	if err != nil {
		return err
	}
	d.Warnings = slices.Concat(d.Warnings, wanted.Warnings, noticed)
	for _, s := range to {
		for _, lead := range c.Data.TargetLeads {
			s.Analyses = append(s.Analyses, all[slices.Index(valids, s.Forecast.Init.Valid(lead))])
		}
	}
	return nil
}
