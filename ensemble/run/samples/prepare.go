package samples

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/protocolfile"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
)

// StorageNames lists the values of PrepareOptions.Storage.
func StorageNames() []string {
	var words []string
	for _, s := range store.Storages {
		words = append(words, string(s))
	}
	return words
}

// PrepareOptions are the inputs of [Prepare].
type PrepareOptions struct {
	Config    *config.TrainConfig
	Protocol  *protocolfile.Config // protocol whose initialisations must all be present; nil: use those that are
	Out       string               // folder of the store
	Storage   string               // one of StorageNames
	Workers   int                  // 0: one per processor
	Memory    int64                // bytes, see store.Write; 0: default
	ShardSize int64                // bytes; 0: default
	Overwrite bool                 // replace an existing store
	Version   string               // program version, for the description of the store
	Progress  *progress.Reporter   // nil shows nothing
	Warn      func(string)         // nil drops warnings, which the store keeps too
}

// PrepareResult is the outcome of Prepare.
type PrepareResult struct {
	Out      string   `json:"store"`    // folder of the store
	Complete bool     `json:"complete"` // it existed before, and nothing was done
	Inits    int      `json:"inits"`
	Shards   int      `json:"shards"`      // files with samples
	Kept     int      `json:"shards_kept"` // shards of an interrupted run that were kept
	Bytes    int64    `json:"bytes"`
	Missing  int64    `json:"missing"` // number of missing values
	Outputs  []string `json:"-"`
	Warnings []string `json:"-"`
}

// Prepare reads the forecasts and analyses of a configuration once and writes them into a sample store. It
// continues an interrupted store. The store holds the initialisations of all parts of the split with all
// features, and analyses of the targets at the target leads.
//
// Reads: data.forecasts and data.analyses, or the files of a protocol.
// Writes: the folder Options.Out with shards of samples and their description (docs/formats/store.md).
// Memory: the catalogue of the input, PrepareOptions.Memory, and the decoding processes.
// Errors: exit 65 and 66 for data with faults, by the rules of check.Run, and for files that change while
// they are read; 73 before any is read if PrepareOptions.Out cannot be written; those of store.Write.
func Prepare(ctx context.Context, o PrepareOptions) (*PrepareResult, error) {
	c := o.Config
	forecastFiles, analysisFiles, err := filesToPrepare(o)
	if err != nil {
		return nil, err
	}
	files := slices.Concat(forecastFiles, analysisFiles)
	p := store.Plan{Axes: setup.ReadAxes(c), Storage: store.Storage(o.Storage), Naming: c.Data.Stated(), Version: o.Version}
	var known map[string]store.InputChecksum
	if !o.Overwrite {
		if known, err = store.ReadInputChecksums(o.Out); err != nil {
			return nil, err
		}
	}
	inputs, err := checksumFiles(ctx, files, known, o.Progress)
	if err != nil {
		return nil, err
	}
	p.Inputs, p.InputChecksums = inputs.files, inputs.reusable
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	options := input.ReaderOptions(c, true)
	options.Pool, options.Keep = pool, func(e ensemble.Entry) bool {
		_, _, _, ok := p.Axes.Find(e.Key)
		return ok || e.Statistic != "" && c.Data.Intervals != config.AsInFiles && slices.Contains(p.Axes.Variables, e.Variable)
	}
	in, err := fio.Open(ctx, forecastFiles, options)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := input.CheckUsable(in, forecastFiles); err != nil {
		return nil, err
	}
	if len(analysisFiles) == 0 {
		if err := input.CheckNamingOf(ctx, c, fio.Open, in); err != nil {
			return nil, err
		}
	}
	if err := planForecasts(ctx, o, in, &p); err != nil {
		return nil, err
	}
	if len(analysisFiles) > 0 {
		options := input.ReaderOptions(c, false)
		options.Pool, options.Keep = pool, func(e ensemble.Entry) bool {
			return (e.Lead == 0 || e.Statistic != "") && slices.Contains(setup.TargetVariables(c), e.Variable) && ensemble.FindLevel(p.Axes.Levels, e.Variable, e.Level) >= 0
		}
		an, err := fio.Open(ctx, analysisFiles, options)
		if err != nil {
			return nil, err
		}
		defer an.Close()
		if err := input.CheckNamingOf(ctx, c, fio.Open, in, an); err != nil {
			return nil, err
		}
		if err := planAnalyses(ctx, c, an, &p); err != nil {
			return nil, err
		}
	}
	if o.Warn != nil {
		for _, w := range p.Warnings {
			o.Warn(w)
		}
	}
	judges := []*statsReader{newStatsReader(&p.Forecasts), newStatsReader(&p.Analyses)}
	task := o.Progress.Start("prepare", int64(len(p.Inits)))
	defer task.Done()
	r, err := store.Write(ctx, o.Out, p, store.Options{Workers: o.Workers, Memory: o.Memory, ShardSize: o.ShardSize, Overwrite: o.Overwrite,
		Validate: func() (warnings []string, err error) {
			if err := inputs.verify(); err != nil {
				return nil, err
			}
			for _, j := range judges {
				found, err := input.SplitFaults(j.stats.Faults())
				if err != nil {
					return nil, err
				}
				warnings = append(warnings, found...)
			}
			if o.Warn != nil {
				for _, w := range warnings {
					o.Warn(w)
				}
			}
			return warnings, nil
		},
		Progress: func(done, all int) { task.Set(int64(done*len(p.Inits)/all), "") }})
	if err != nil {
		return nil, err
	}
	res := &PrepareResult{Out: o.Out, Complete: r.Complete, Inits: len(r.Meta.InitTimes), Shards: len(r.Meta.Shards), Kept: r.Reused, Bytes: r.Meta.Bytes(),
		Outputs: r.Outputs, Warnings: r.Meta.Warnings}
	for _, s := range r.Meta.Statistics {
		res.Missing += s.Missing
	}
	return res, nil
}

// filesToPrepare lists the files of the archive. It reports a store that cannot be written before any of them is read; a complete
// one is only read.
func filesToPrepare(o PrepareOptions) (forecasts, analyses []string, err error) {
	if _, err := filesystem.Stat(filepath.Join(o.Out, store.MetaFile)); err != nil || o.Overwrite {
		if err := rundir.CheckWritable(o.Out); err != nil {
			return nil, nil, err
		}
	}
	return ArchiveFiles(o.Config)
}

// ArchiveFiles lists the forecast and analysis files of a configuration.
func ArchiveFiles(c *config.TrainConfig) (forecasts, analyses []string, err error) {
	if forecasts, err = input.ConfigFiles("data.forecasts", c.Data.Forecasts); err != nil || len(c.Data.Analyses) == 0 {
		return forecasts, nil, err
	}
	analyses, err = input.ConfigFiles("data.analyses", c.Data.Analyses)
	return forecasts, analyses, err
}

// planForecasts selects the members and initialisations of a configuration, and their fields.
func planForecasts(ctx context.Context, o PrepareOptions, in *fio.Input, p *store.Plan) error {
	c, m := o.Config, o.Config.Data.Members
	var err error
	if _, p.Members, err = input.ChooseMembers(in.Catalogue().Members(), m.Use.List, m.Use.Count, m.Full, m.Control); err != nil {
		return err
	}
	to, err := input.DestinationOf(ctx, c, fio.Open)
	if err != nil {
		return err
	}
	selected, err := input.SelectForecasts(in, input.RequirementsOf(c, p.Axes, p.Members), to, input.StatisticsOf(c))
	if err != nil {
		return err
	}
	p.Axes = selected.Axes
	if o.Protocol != nil {
		warnings, err := input.CheckProtocolInits(o.Protocol, c.Data.Split, selected.Inits, input.FileList(in.Files()))
		if err != nil {
			return err
		}
		p.Warnings = append(p.Warnings, warnings...)
	}
	split, err := setup.ApplySplit(c.Data.Split, selected.Inits)
	if err != nil {
		return err
	}
	p.Inits = slices.Concat(split.Train, split.Validation, split.Test)
	slices.SortFunc(p.Inits, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
	p.Inits = slices.Compact(p.Inits)
	if to.How.IsEnabled() {
		p.Interpolation = to.How.String()
	}
	p.Grid, p.Forecasts = selected.Grid, store.FieldSource{Reader: selected.Reader, Entries: selected.Entries}
	p.Warnings = append(p.Warnings, selected.Warnings...)
	return selected.CheckDuplicates(ctx, p.Inits, nil)
}

// planAnalyses selects the analyses of the initialisations.
func planAnalyses(ctx context.Context, c *config.TrainConfig, in *fio.Input, p *store.Plan) error {
	p.AnalysisVariables, p.AnalysisLeads = setup.TargetVariables(c), c.Data.TargetLeads
	valids := setup.ValidTimes(p.Inits, c.Data.TargetLeads)
	request, err := input.AnalysesOf(c, p.Axes, valids)
	if err != nil {
		return err
	}
	selected, err := input.SelectAnalyses(in, request, input.Destination{Grid: p.Grid, How: setup.InterpolationOf(c), Fix: input.FixGrid})
	if err != nil {
		return err
	}
	p.Axes = input.CompleteStatistics(p.Axes, c.Data.TargetLeads, selected.Statistics)
	p.Warnings = append(p.Warnings, input.OpenStatistics(p.Axes, setup.TargetVariables(c), c.Data.TargetLeads)...)
	p.Analyses = store.FieldSource{Reader: selected.Reader, Entries: selected.Entries}
	p.Warnings = append(p.Warnings, selected.Warnings...)
	return input.CompareDuplicates(ctx, in, selected.Duplicates)
}

// openStore is ReadData from the store of a configuration. Samples are read when they are needed, and their
// values are checked in the first pass.
func openStore(ctx context.Context, c *config.TrainConfig, ranks *team.Team, suffices func(*Data) error) (*Data, error) {
	metadata, err := readStoreMetadata(string(c.Data.Store), ranks)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, string(c.Data.Store), store.OpenOptions{Direct: c.Data.DirectIO, Metadata: metadata})
	if err != nil {
		return nil, err
	}
	axes := setup.ReadAxes(c)
	if axes.Statistics, err = storedStatistics(c, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if have, want := formatNaming(s.Naming), formatNaming(c.Data.Stated()); have != want {
		return nil, errors.Join(&exit.Error{Code: exit.Usage, What: "the sample store was prepared with other names, units or leads", At: s.Dir(), Why: "its inputs were read with " + have + "; data.names, data.units and data.file_leads state " + want,
			Fix: "prepare a store with this configuration, or restore the keys"}, s.Close())
	}
	d := &Data{Axes: axes, Ranks: ranks, Grid: s.Grid, Provenance: Provenance{Origins: s.Origins}, Warnings: s.Warnings, Store: s}
	for _, v := range s.Variables {
		for name, unit := range ensemble.OwnUnits([]ensemble.Entry{{Key: ensemble.Key{Variable: v.Name}, Kind: &ensemble.Kind{Unit: v.Unit}}}) {
			if d.Units == nil {
				d.Units = map[string]string{}
			}
			d.Units[name] = unit
		}
	}
	if err := d.fromStore(ctx, c, suffices); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// readStoreMetadata reads the metadata of a store on rank 0 and sends them to the other ranks.
func readStoreMetadata(dir string, ranks *team.Team) (metadata map[string][]byte, err error) {
	if err := ranks.AgreeOnError(nil); err != nil { // a rank that failed before is here too
		return nil, err
	}
	if ranks.IsRoot() {
		metadata = store.ReadMetadata(dir)
	}
	return team.Broadcast(ranks, metadata)
}

// formatNaming describes the names, units and leads that were stated.
func formatNaming(n ensemble.Naming) string {
	if n.IsZero() {
		return "none"
	}
	return fmt.Sprint(n.Names, n.Units, n.Leads)
}

// storedStatistics returns the statistics over time of a store, which must be those that the configuration selects.
//
// Errors: exit 64.
func storedStatistics(c *config.TrainConfig, s *store.Store) ([]ensemble.VariableStatistic, error) {
	axes := s.Axes()
	for _, v := range c.Data.Variables {
		want := c.Data.StatisticOf(v)
		for _, lead := range c.Data.ReadLeads() {
			have := axes.StatisticOf(v, lead)
			length := c.Data.Intervals.Length()
			if c.Data.Intervals == config.FromStart {
				length = lead
			}
			instant := want.Statistic == config.InstantStatistic
			if instant && have.Statistic == "" || !instant && (want.Statistic == "" || want.Statistic == have.Statistic) && (want.Interval == 0 || want.Interval == have.Interval) &&
				(have.Statistic == "" || length == 0 || length == have.Interval) {
				continue
			}
			return nil, &exit.Error{Code: exit.Usage, What: "the sample store has another statistic of " + v, At: s.Dir(), Why: fmt.Sprintf("%s at lead %s", have, lead),
				Fix: "prepare a store with this configuration, or correct data.statistics, data.targets and data.intervals"}
		}
	}
	return axes.Statistics, nil
}

// fromStore selects the samples of a store.
func (d *Data) fromStore(ctx context.Context, c *config.TrainConfig, suffices func(*Data) error) error {
	if c.Data.Grid.IsNamed() {
		if g, err := ensemble.NamedGrid(c.Data.Grid.To); err != nil || !g.SameAs(d.Grid, input.GridTolerance) {
			return &exit.Error{Code: exit.Usage, What: "the grid of the sample store differs from data.grid.to", At: d.Store.Dir(), Why: d.Grid.String() + ", not " + c.Data.Grid.To,
				Fix: "prepare a store with this configuration, or set data.grid.to to the grid of the store", Err: err}
		}
	}
	m := c.Data.Members
	var err error
	if d.Used, d.All, err = input.ChooseMembers(d.Store.Members, m.Use.List, m.Use.Count, m.Full, m.Control); err != nil {
		return err
	}
	if err := setup.ArrangeOnMesh(ctx, d.Ranks, c, d.Grid); err != nil {
		return err
	}
	if d.Split, err = setup.ApplySplit(c.Data.Split, d.Store.Inits()); err != nil {
		return err
	}
	leaks, err := d.Split.CheckLeaks(d.Axes.Leads, c.Data.TargetLeads)
	if err != nil {
		return err
	}
	d.Warnings = append(d.Warnings, leaks...)
	if err := suffices(d); err != nil {
		return err
	}
	own := d.Ranks.Shard()
	sel := store.Selection{Variables: d.Axes.Variables, Levels: own.LocalAxes(d.Axes).Levels, Leads: d.Axes.Leads, Members: d.All, Window: own.Window(),
		AnalysisVariables: []string{}, AnalysisLeads: []ensemble.Lead{}}
	analysed := len(c.Data.Analyses) > 0
	if analysed {
		sel.AnalysisVariables, sel.AnalysisLeads = setup.TargetVariables(c), c.Data.TargetLeads
	}
	r, err := d.Store.Select(sel)
	if err != nil {
		return err
	}
	from, err := loader.New(storedExamples{r, SplitInits(d.Split)}, loaderOptions(c, d.Ranks.MaxRanksPerProcess()))
	if err != nil {
		return err
	}
	d.AssignSamples(from, analysed)
	d.ValueCheck = newStoreValueStats(d.Store, d.Axes.Levels, sel.Levels)
	d.PlanReads(d.firstPasses(c))
	return nil
}

// loaderOptions returns the loader options of one part of a process.
func loaderOptions(c *config.TrainConfig, parts int) loader.Options {
	o := loader.Options{Prefetch: c.Data.Prefetch, Memory: int64(c.Data.Memory), Disk: int64(c.Data.DiskCache.Size) / int64(parts), DiskDir: string(c.Data.DiskCache.Folder),
		PeerTimeout: min(c.Train.Train.StallTimeout, time.Minute)}
	if o.Memory == 0 {
		o.Memory = math.MaxInt64
	}
	o.Memory /= int64(parts)
	return o
}

// storeValueStats are the statistics of values read from a store, separate for forecasts and analyses.
type storeValueStats struct {
	levels, slabLevels  []ensemble.Level          // levels of all fields, and of the rank's slab
	kinds               map[string]*ensemble.Kind // by variable
	dir                 string
	forecasts, analyses input.ValueStats
	counted             map[ensemble.Valid]bool // analyses so far; samples share some if there are several target leads
}

// newStoreValueStats returns empty statistics of a store.
func newStoreValueStats(s *store.Store, levels, own []ensemble.Level) *storeValueStats {
	c := &storeValueStats{levels: levels, slabLevels: own, kinds: map[string]*ensemble.Kind{}, dir: s.Dir(), counted: map[ensemble.Valid]bool{}}
	for _, v := range s.Variables {
		c.kinds[v.Name] = &ensemble.Kind{Unit: v.Unit, Grid: s.Grid}
	}
	return c
}

// Add adds one sample.
func (c *storeValueStats) Add(f *ensemble.Forecast, a []*ensemble.Analysis) {
	add := func(to *input.ValueStats, k ensemble.Key, field func(level int) []float32) {
		for _, l := range c.levels {
			k.Level = l.ForVariable(k.Variable)
			to.Entries = append(to.Entries, ensemble.Entry{Key: k, Kind: c.kinds[k.Variable], File: c.dir})
			to.Fields = append(to.Fields, input.FieldStats{})
			if own := slices.Index(c.slabLevels, l); own >= 0 {
				to.Add(len(to.Entries)-1, field(own))
			}
		}
	}
	for t, lead := range f.Axes.Leads {
		for m, member := range f.Members {
			for v, name := range f.Axes.Variables {
				add(&c.forecasts, ensemble.Key{Variable: name, Member: member, Init: f.Init, Lead: lead}, func(l int) []float32 { return f.Field(t, m, v, l) })
			}
		}
	}
	for _, a := range a {
		if c.counted[a.Valid] {
			continue
		}
		c.counted[a.Valid] = true
		for v, name := range a.Variables {
			add(&c.analyses, ensemble.Key{Variable: name, Member: ensemble.NoMember, Init: ensemble.Init(a.Valid)}, func(l int) []float32 { return a.Field(v, l) })
		}
	}
}

// Faults checks the values, as for data files. All ranks of a team call it at the same point.
func (c *storeValueStats) Faults(ranks *team.Team) (warnings []string, err error) {
	for _, c := range []*input.ValueStats{&c.forecasts, &c.analyses} {
		if ranks.Shard() != nil {
			if err := c.Join(ranks); err != nil {
				return nil, err
			}
		}
		found, err := input.SplitFaults(c.Faults())
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, found...)
	}
	return warnings, nil
}

// StoreGrid returns the grid of a store.
func StoreGrid(ctx context.Context, dir string) (*ensemble.Grid, error) {
	s, err := store.Open(ctx, dir, store.OpenOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Grid, nil
}

// Sections reports what was written.
func (r *PrepareResult) Sections() answer.Sections {
	line := r.Out + ": already complete"
	if !r.Complete {
		line = fmt.Sprintf("%s: %d initialisations, %d bytes in %s", r.Out, r.Inits, r.Bytes, humanise.Count(r.Shards, "shard"))
		if r.Kept > 0 {
			line += fmt.Sprintf(", %d of them written before", r.Kept)
		}
		if r.Missing > 0 {
			line += fmt.Sprintf("; %d values are missing", r.Missing)
		}
	}
	return answer.Sections{{Text: []string{line}}}
}

// StoreSections describes the content of a store.
func StoreSections(s *store.Store, stats bool) answer.Sections {
	var rows [][2]string
	row := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	axes, inits := s.Axes(), s.Inits()
	var variables []string
	for _, v := range s.Variables {
		variables = append(variables, v.Name+" ("+v.Unit+")")
	}
	row("sample store", "format %d, %s, %d bytes in %s", s.Format, s.Storage, s.Bytes(), humanise.Count(len(s.Shards), "shard"))
	row("variables", "%s", strings.Join(variables, ", "))
	row("levels", "%s", input.Abbreviate(axes.Levels))
	row("leads", "%s", input.Abbreviate(axes.Leads))
	row("members", "%s", input.FormatMembers(s.Members))
	row("inits", "%s", input.Abbreviate(inits))
	if len(s.Analyses.Variables) > 0 {
		row("analyses", "%s at %s", strings.Join(s.Analyses.Variables, ", "), input.Abbreviate(s.AnalysisLeads()))
	}
	row("grid", "%s", s.Grid)
	row("bands", "%d rows each", s.BandRows)
	row("made by", "%s, of %d files", s.Version, len(s.Inputs))
	all := answer.Sections{answer.FactsSection(rows...)}
	if !stats {
		return all
	}
	values := answer.Section{Columns: append(answer.TextColumns("kind", "lead", "variable", "level"), answer.NumberColumns("%.6g", "missing", "min", "mean", "sd", "max")...)}
	values.Columns[4].Format = "%d"
	for _, x := range s.Statistics {
		values.Rows = append(values.Rows, []any{x.Kind, ensemble.Lead(time.Duration(x.Lead) * time.Second), x.Variable, x.Level, x.Missing, x.Min, x.Mean, x.SD, x.Max})
	}
	return append(all, answer.Section{Text: []string{"all checksums match"}}, values)
}

// TrainingFiles lists the files that identify the data of a training: forecast and analysis files or, for a
// store, only its description, which contains the checksums of the others.
func TrainingFiles(c *config.TrainConfig) (forecasts, analyses []string, err error) {
	if dir := string(c.Data.Store); dir != "" {
		return []string{filepath.Join(dir, store.MetaFile)}, nil, nil
	}
	return ArchiveFiles(c)
}
