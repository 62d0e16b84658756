package samples

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
)

// InputTiming is how long the steps of this process waited for their batches, and where samples came from.
type InputTiming struct {
	Steps  float64 `json:"steps_s"`      // total time
	Waited float64 `json:"waited_s"`     // for batches
	Share  float64 `json:"waited_share"` // Waited / Steps
	// Memory, DiskCache, Peers (memory of other ranks) and FileSystem count samples and their bytes by source.
	// They are sums over all ranks. FileSystem includes samples read for other ranks.
	Memory     loader.Count `json:"memory"`
	DiskCache  loader.Count `json:"disk_cache"`
	Peers      loader.Count `json:"peers"`
	FileSystem loader.Count `json:"file_system"`
}

// Provenance is what a model records about its training data.
type Provenance struct {
	Origins []ensemble.Origin // forecast models; nil if unknown
	Units   map[string]string // of variables outside the vocabulary
}

// Data are the samples of a training.
type Data struct {
	Axes                    ensemble.Axes     // axes of the features and target leads
	Used, All               []ensemble.Member // input members, and full ensemble
	Grid                    *ensemble.Grid    // grid of the complete fields
	Ranks                   *team.Team        // each has its slab of all samples
	reading                                   // loader of the samples
	Train, Validation, Test Examples          // parts of the split
	Split                   ensemble.Split
	Inputs                  []manifest.File // files with checksums
	Provenance
	Warnings []string

	Store      *store.Store     // nil if samples come from data files
	ValueCheck *storeValueStats // statistics of values read from the store; nil after the first pass
}

// reading is how the samples of a training are read.
type reading struct {
	Source  *source // loader of the samples
	readers readers // ranks that read them together
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

// ReadData reads and splits the samples of a training: from its sample store (data.store) as needed, or all
// of them from forecast and analysis files into memory. Each rank reads its slab of all samples, as the order
// of samples is random.
//
// Shape: a sample has [lead][member][variable][level][point] of the slab, and an analysis per target lead.
// Errors: exit 64 for a split that leaks or is empty, and for a mesh that does not fit; 65 and 66 for files;
// 71.
func ReadData(ctx context.Context, c *config.TrainConfig, forecastFiles, analysisFiles []string, ranks *team.Team) (*Data, error) {
	return ReadCheckedData(ctx, c, forecastFiles, analysisFiles, ranks, func(*Data) error { return nil })
}

// ReadCheckedData is [ReadData] with a check whether split and members suffice, before any field is read.
//
// Errors: as ReadData; those of suffices.
func ReadCheckedData(ctx context.Context, c *config.TrainConfig, forecastFiles, analysisFiles []string, ranks *team.Team, suffices func(*Data) error) (*Data, error) {
	if c.Data.Store != "" {
		return openStore(ctx, c, ranks, suffices)
	}
	d := &Data{Axes: setup.ReadAxes(c), Ranks: ranks}
	pool, err := decodingPool(ranks, forecastFiles, analysisFiles)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	open := input.OpenerOf(ranks, pool)
	in, err := open(ctx, forecastFiles, input.ReaderOptions(c, true))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := input.CheckUsable(in, forecastFiles); err != nil {
		return nil, err
	}
	if len(analysisFiles) == 0 {
		if err := input.CheckNamingOf(ctx, c, open, in); err != nil {
			return nil, err
		}
	}
	m := c.Data.Members
	if d.Used, d.All, err = input.ChooseMembers(in.Catalogue().Members(), m.Use.List, m.Use.Count, m.Full, m.Control); err != nil {
		return nil, err
	}
	to, err := input.DestinationOf(ctx, c, open)
	if err != nil {
		return nil, err
	}
	selected, err := input.SelectForecasts(in, input.RequirementsOf(c, d.Axes, d.All), to, input.StatisticsOf(c))
	if err != nil {
		return nil, err
	}
	d.Axes, d.Grid, d.Origins, d.Units = selected.Axes, selected.Grid, ensemble.Origins(selected.Entries), ensemble.OwnUnits(selected.Entries)
	if err := setup.ArrangeOnMesh(ctx, ranks, c, d.Grid); err != nil {
		return nil, err
	}
	if err := selected.CheckDuplicates(ctx, selected.Inits, ranks); err != nil {
		return nil, err
	}
	if d.Split, err = setup.ApplySplit(c.Data.Split, selected.Inits); err != nil {
		return nil, err
	}
	leaks, err := d.Split.CheckLeaks(d.Axes.Leads, c.Data.TargetLeads)
	if err != nil {
		return nil, err
	}
	if err := suffices(d); err != nil {
		return nil, err
	}
	forecasts, found, err := selected.Read(ctx, selected.Inits, ranks)
	if err != nil {
		return nil, err
	}
	read := loader.Count{Reads: selected.FileReads.Inits, Bytes: selected.FileReads.Bytes}
	d.Warnings = slices.Concat(d.Warnings, selected.Warnings, found, leaks)
	var held []*store.Sample
	for _, init := range SplitInits(d.Split) {
		held = append(held, &store.Sample{Forecast: forecasts[slices.Index(selected.Inits, init)]})
	}
	if len(analysisFiles) > 0 {
		if held, err = d.readAnalyses(ctx, c, openFiles{open, in, analysisFiles}, held, &read); err != nil {
			return nil, err
		}
	}
	d.AssignSamples(loader.NewInMemory(held, SampleBytes(held), read), len(analysisFiles) > 0)
	return d, nil
}

// decodingPool returns a pool whose children may read all files: the start of a child takes as long as the decoding of hundreds of
// small fields, and one without the folder of a file is replaced.
//
// Errors: exit 69 without the decoding program, on all ranks.
func decodingPool(ranks *team.Team, files ...[]string) (*decode.Pool, error) {
	pool, err := decode.NewPool(decode.Options{})
	if err == nil {
		err = pool.Announce(slices.Concat(files...))
	}
	if err = ranks.AgreeOnError(err); err != nil && pool != nil {
		pool.Close()
	}
	return pool, err
}

// ReadSplit returns the split of a training from the indexes of its files or from its sample store, without reading fields.
// A training also leaves out initialisations whose analyses have no value.
//
// Errors: as [ReadData].
func ReadSplit(ctx context.Context, c *config.TrainConfig) (ensemble.Split, error) {
	if c.Data.Store != "" {
		s, err := store.Open(ctx, string(c.Data.Store), store.OpenOptions{})
		if err != nil {
			return ensemble.Split{}, err
		}
		defer s.Close()
		return setup.ApplySplit(c.Data.Split, s.Inits())
	}
	files, _, err := ArchiveFiles(c)
	if err != nil {
		return ensemble.Split{}, err
	}
	in, err := fio.Open(ctx, files, input.ReaderOptions(c, true))
	if err != nil {
		return ensemble.Split{}, err
	}
	defer in.Close()
	if err := input.CheckUsable(in, files); err != nil {
		return ensemble.Split{}, err
	}
	m := c.Data.Members
	_, all, err := input.ChooseMembers(in.Catalogue().Members(), m.Use.List, m.Use.Count, m.Full, m.Control)
	if err != nil {
		return ensemble.Split{}, err
	}
	to, err := input.DestinationOf(ctx, c, fio.Open)
	if err != nil {
		return ensemble.Split{}, err
	}
	selected, err := input.SelectForecasts(in, input.RequirementsOf(c, setup.ReadAxes(c), all), to, input.StatisticsOf(c))
	if err != nil {
		return ensemble.Split{}, err
	}
	return setup.ApplySplit(c.Data.Split, selected.Inits)
}

// openFiles are the opened forecasts of a training, the files of its analyses, and what opens them.
type openFiles struct {
	open      input.Opener
	forecasts *fio.Input
	analyses  []string
}

// readAnalyses reads the analyses of the valid times of all samples at the target leads. It returns the
// samples with a value in any of them; the others leave the split. read counts the bytes that this rank read.
//
// Errors: exit 65 if no analysis of a variable has a value, or a part of the split has none left.
func (d *Data) readAnalyses(ctx context.Context, c *config.TrainConfig, from openFiles, to []*store.Sample, read *loader.Count) ([]*store.Sample, error) {
	in, err := from.open(ctx, from.analyses, input.ReaderOptions(c, false))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := input.CheckUsable(in, from.analyses); err != nil {
		return nil, err
	}
	if err := input.CheckNamingOf(ctx, c, from.open, from.forecasts, in); err != nil {
		return nil, err
	}
	var inits []ensemble.Init
	for _, s := range to {
		inits = append(inits, s.Forecast.Init)
	}
	valids := setup.ValidTimes(inits, c.Data.TargetLeads)
	request, err := input.AnalysesOf(c, d.Axes, valids)
	if err != nil {
		return nil, err
	}
	selected, err := input.SelectAnalyses(in, request, input.Destination{Grid: d.Grid, How: setup.InterpolationOf(c), Fix: input.FixGrid})
	if err != nil {
		return nil, err
	}
	d.Axes = input.CompleteStatistics(d.Axes, c.Data.TargetLeads, selected.Statistics)
	d.Warnings = append(d.Warnings, input.OpenStatistics(d.Axes, setup.TargetVariables(c), c.Data.TargetLeads)...)
	all, warnings, err := selected.Read(ctx, valids, d.Ranks)
	if err != nil {
		return nil, err
	}
	read.Bytes += selected.FileReads.Bytes
	gaps, err := input.SplitFaults(selected.EmptyFaults())
	if err != nil {
		return nil, err
	}
	d.Warnings = slices.Concat(d.Warnings, selected.Warnings, warnings, gaps)
	for _, s := range to {
		for _, lead := range c.Data.TargetLeads {
			s.Analyses = append(s.Analyses, all[slices.Index(valids, s.Forecast.Init.Valid(lead))])
		}
	}
	return d.dropUnverified(selected, c.Data.TargetLeads, to)
}

// dropUnverified removes the samples of whose analyses none has a value from the split.
//
// Errors: exit 65 if a part of the split has no sample left.
func (d *Data) dropUnverified(s *input.AnalysisSelection, leads []ensemble.Lead, all []*store.Sample) ([]*store.Sample, error) {
	empty := map[ensemble.Valid]int{}
	for _, e := range s.Empty {
		empty[e.Valid()]++
	}
	fields := map[ensemble.Valid]int{}
	for _, e := range s.Entries {
		fields[e.Valid()]++
	}
	without := map[ensemble.Init]bool{}
	kept := slices.DeleteFunc(slices.Clone(all), func(x *store.Sample) bool {
		init := x.Forecast.Init
		without[init] = !slices.ContainsFunc(leads, func(l ensemble.Lead) bool { return empty[init.Valid(l)] < fields[init.Valid(l)] })
		return without[init]
	})
	for _, p := range []struct {
		name  string
		inits *[]ensemble.Init
	}{{"training", &d.Split.Train}, {"validation", &d.Split.Validation}, {"test", &d.Split.Test}} {
		before := len(*p.inits)
		*p.inits = slices.DeleteFunc(slices.Clone(*p.inits), func(i ensemble.Init) bool { return without[i] })
		if before > 0 && len(*p.inits) == 0 {
			return nil, &exit.Error{Code: exit.BadData, What: "no " + p.name + " initialisation has an analysis with values", At: "data.split", Why: fmt.Sprintf("the analyses of all %d have only missing values", before),
				Fix: "choose other dates, or give other analyses"}
		}
	}
	return kept, nil
}
