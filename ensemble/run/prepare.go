package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
)

// Storages are the words for PrepareOptions.Storage.
func Storages() []string {
	var words []string
	for _, s := range store.Storages {
		words = append(words, string(s))
	}
	return words
}

// PrepareOptions says what to put into a sample store and how.
type PrepareOptions struct {
	Config    *config.TrainConfig
	Protocol  *config.ProtocolConfig // whose starts must all be there; nil for those that are
	Out       string                 // the folder
	Storage   string                 // one of Storages
	Workers   int                    // 0 means one for each processor
	Memory    int64                  // bytes of store.Write; 0 means its default
	ShardSize int64                  // bytes of a shard; 0 means the default
	Overwrite bool                   // replace another store
	Version   string
	Progress  *progress.Reporter // nil shows nothing
	Warn      func(string)       // nil drops warnings; they are in the store too
}

// PrepareResult says what came of it.
type PrepareResult struct {
	Out      string   `json:"store"`
	Complete bool     `json:"complete"` // it was there before; nothing was done
	Starts   int      `json:"starts"`
	Shards   int      `json:"shards"`
	Kept     int      `json:"shards_kept"` // of an interrupted run
	Bytes    int64    `json:"bytes"`
	Missing  int64    `json:"missing"` // values
	Outputs  []string `json:"-"`
	Warnings []string `json:"-"`
}

// Prepare reads the forecasts and analyses of a configuration once and writes them into
// a sample store, or goes on with one that was interrupted. The store holds the starts
// of all parts of the split with all their fields, and analyses of the targets at the
// target lead.
//
// Memory: the catalogue of the input, PrepareOptions.Memory, and the decoding children.
// Errors: 65 and 66 for the data, by the rules of Check for what is read now, also for files
// that change while they are read: of an archive nothing is read twice by itself. Those of
// store.Write.
func Prepare(ctx context.Context, o PrepareOptions) (*PrepareResult, error) {
	c := o.Config
	forecastFiles, analysisFiles, err := archiveFiles(c)
	if err != nil {
		return nil, err
	}
	files := slices.Concat(forecastFiles, analysisFiles)
	p := store.Plan{Axes: readAxes(c), Storage: store.Storage(o.Storage), Version: o.Version}
	var known map[string]store.Known
	if !o.Overwrite {
		known = store.ReadKnown(o.Out)
	}
	inputs, err := sums(ctx, files, known, o.Progress)
	if err != nil {
		return nil, err
	}
	p.Inputs, p.Known = inputs.files, inputs.known
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	options := reading(c, true)
	options.Pool, options.Keep = pool, func(e ensemble.Entry) bool {
		_, _, _, ok := p.Axes.Find(e.Key)
		return ok
	}
	in, err := fio.Open(ctx, forecastFiles, options)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := planForecasts(ctx, o, in, &p); err != nil {
		return nil, err
	}
	if len(analysisFiles) > 0 {
		options := reading(c, false)
		options.Pool, options.Keep = pool, func(e ensemble.Entry) bool {
			return e.Lead == 0 && slices.Contains(targetVariables(c), e.Variable) && ensemble.FindLevel(p.Axes.Levels, e.Variable, e.Level) >= 0
		}
		an, err := fio.Open(ctx, analysisFiles, options)
		if err != nil {
			return nil, err
		}
		defer an.Close()
		if err := planAnalyses(ctx, c, an, &p); err != nil {
			return nil, err
		}
	}
	if o.Warn != nil {
		for _, w := range p.Warnings {
			o.Warn(w)
		}
	}
	judges := []*witness{newWitness(&p.Forecasts), newWitness(&p.Analyses)}
	task := o.Progress.Start("prepare", int64(len(p.Starts)))
	defer task.Done()
	r, err := store.Write(ctx, o.Out, p, store.Options{Workers: o.Workers, Memory: o.Memory, ShardSize: o.ShardSize, Overwrite: o.Overwrite,
		Judge: func() (warnings []string, err error) {
			if err := inputs.unchanged(); err != nil {
				return nil, err
			}
			for _, j := range judges {
				noticed, err := refusal(j.tally.faults())
				if err != nil {
					return nil, err
				}
				warnings = append(warnings, noticed...)
			}
			if o.Warn != nil {
				for _, w := range warnings {
					o.Warn(w)
				}
			}
			return warnings, nil
		},
		Progress: func(done, all int) { task.Set(int64(done*len(p.Starts)/all), "") }})
	if err != nil {
		return nil, err
	}
	res := &PrepareResult{Out: o.Out, Complete: r.Complete, Starts: len(r.Meta.Starts), Shards: len(r.Meta.Shards), Kept: r.Kept, Bytes: r.Meta.Bytes(),
		Outputs: r.Outputs, Warnings: r.Meta.Warnings}
	for _, s := range r.Meta.Statistics {
		res.Missing += s.Missing
	}
	return res, nil
}

// archiveFiles are the files of a configuration's forecasts and analyses.
func archiveFiles(c *config.TrainConfig) (forecasts, analyses []string, err error) {
	if forecasts, err = filesOf("data.forecasts", c.Data.Forecasts); err != nil || len(c.Data.Analyses) == 0 {
		return forecasts, nil, err
	}
	analyses, err = filesOf("data.analyses", c.Data.Analyses)
	return forecasts, analyses, err
}

// planForecasts finds the members and starts of a configuration, and their fields.
func planForecasts(ctx context.Context, o PrepareOptions, in *fio.Input, p *store.Plan) error {
	c, m := o.Config, o.Config.Data.Members
	var err error
	if _, p.Members, err = choose(in.Catalogue().Members(), m.Use.List, m.Use.Count, m.Full, m.Control); err != nil {
		return err
	}
	to, err := destinationOf(ctx, c)
	if err != nil {
		return err
	}
	wanted, err := selectForecasts(in, p.Axes, p.Members, to)
	if err != nil {
		return err
	}
	if o.Protocol != nil {
		strange, err := startsOf(o.Protocol, c.Data.Split, wanted.inits, place(in.Files()))
		if err != nil {
			return err
		}
		p.Warnings = append(p.Warnings, strange...)
	}
	split, err := divide(c.Data.Split, wanted.inits)
	if err != nil {
		return err
	}
	p.Starts = slices.Concat(split.Train, split.Validation, split.Test)
	slices.SortFunc(p.Starts, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
	p.Starts = slices.Compact(p.Starts)
	if to.how.Asked() {
		p.Interpolation = to.how.String()
	}
	p.Grid, p.Forecasts = wanted.grid, store.Archive{Reader: wanted.from, Entries: wanted.entries}
	p.Warnings = append(p.Warnings, wanted.warnings...)
	return wanted.check(ctx, p.Starts)
}

// planAnalyses finds the analyses of the starts.
func planAnalyses(ctx context.Context, c *config.TrainConfig, in *fio.Input, p *store.Plan) error {
	p.AnalysisVariables, p.AnalysisLeads = targetVariables(c), c.Data.TargetLeads
	valids := validsOf(p.Starts, c.Data.TargetLeads)
	wanted, err := selectAnalyses(in, p.AnalysisVariables, p.Axes.Levels, destination{p.Grid, interpolationOf(c), fixGrid}, valids)
	if err != nil {
		return err
	}
	p.Analyses = store.Archive{Reader: wanted.from, Entries: wanted.entries}
	p.Warnings = append(p.Warnings, wanted.warnings...)
	return compare(ctx, in, wanted.repeats)
}

// openStore is readData from the store of a configuration. Starts are read as they are
// needed, and their values are judged when that is first.
func openStore(ctx context.Context, c *config.TrainConfig, ranks *team.Team) (*data, error) {
	s, err := store.Open(ctx, string(c.Data.Store), store.OpenOptions{Direct: c.Data.Direct})
	if err != nil {
		return nil, err
	}
	d := &data{axes: readAxes(c), ranks: ranks, grid: s.Grid, origins: s.Origins, warnings: s.Warnings, store: s}
	if err := d.fromStore(c); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// fromStore prepares the reading of a store.
func (d *data) fromStore(c *config.TrainConfig) error {
	if c.Data.Grid.Named() {
		if g, err := ensemble.NamedGrid(c.Data.Grid.To); err != nil || !g.SameAs(d.grid, gridTolerance) {
			return &exit.Error{Code: exit.Usage, What: "the sample store is on another grid than data.grid.to", At: d.store.Dir(), Why: d.grid.String() + ", not " + c.Data.Grid.To,
				Fix: "prepare a store with this configuration, or name the grid of the store", Err: err}
		}
	}
	m := c.Data.Members
	var err error
	if d.used, d.all, err = choose(d.store.Members, m.Use.List, m.Use.Count, m.Full, m.Control); err != nil {
		return err
	}
	if err := joinMesh(d.ranks, c, d.grid); err != nil {
		return err
	}
	if d.split, err = divide(c.Data.Split, d.store.Inits()); err != nil {
		return err
	}
	leaks, err := d.split.CheckLeaks(d.axes.Leads, c.Data.TargetLeads)
	if err != nil {
		return err
	}
	d.warnings = append(d.warnings, leaks...)
	own := d.ranks.Own()
	sel := store.Selection{Variables: d.axes.Variables, Levels: own.Axes(d.axes).Levels, Leads: d.axes.Leads, Members: d.all, Window: own.Window(),
		AnalysisVariables: []string{}, AnalysisLeads: []ensemble.Lead{}}
	analysed := len(c.Data.Analyses) > 0
	if analysed {
		sel.AnalysisVariables, sel.AnalysisLeads = targetVariables(c), c.Data.TargetLeads
	}
	r, err := d.store.Select(sel)
	if err != nil {
		return err
	}
	from, err := loader.New(storedStarts{r, inits(d.split)}, loaderOptions(c, d.ranks.Most()))
	if err != nil {
		return err
	}
	d.divided(from, analysed)
	d.judged = newStoredCensus(d.store, d.axes.Levels, sel.Levels)
	from.Keep(d.schedule(c.Train.Train, 0, nil))
	return nil
}

// loaderOptions are those of one of the parts of a process.
func loaderOptions(c *config.TrainConfig, parts int) loader.Options {
	o := loader.Options{Ahead: c.Data.Prefetch, Memory: int64(c.Data.Memory), Disk: int64(c.Data.DiskCache.Size) / int64(parts), DiskDir: string(c.Data.DiskCache.Folder),
		Patience: min(c.Train.Train.StallTimeout, time.Minute)}
	if o.Memory == 0 {
		o.Memory = math.MaxInt64
	}
	o.Memory /= int64(parts)
	return o
}

// storedCensus is the censuses of what is read from a store, as files have one each of
// forecasts and analyses.
type storedCensus struct {
	levels, own         []ensemble.Level          // of the fields, and of a rank's
	kinds               map[string]*ensemble.Kind // by variable
	dir                 string
	forecasts, analyses census
	counted             map[ensemble.Valid]bool // analyses; starts have some in common where there are several target leads
}

func newStoredCensus(s *store.Store, levels, own []ensemble.Level) *storedCensus {
	c := &storedCensus{levels: levels, own: own, kinds: map[string]*ensemble.Kind{}, dir: s.Dir(), counted: map[ensemble.Valid]bool{}}
	for _, v := range s.Variables {
		c.kinds[v.Name] = &ensemble.Kind{Unit: v.Unit, Grid: s.Grid}
	}
	return c
}

// add counts one start.
func (c *storedCensus) add(f *ensemble.Forecast, a []*ensemble.Analysis) {
	add := func(to *census, k ensemble.Key, field func(level int) []float32) {
		for _, l := range c.levels {
			k.Level = l.Of(k.Variable)
			to.entries = append(to.entries, ensemble.Entry{Key: k, Kind: c.kinds[k.Variable], File: c.dir})
			to.fields = append(to.fields, tally{})
			if own := slices.Index(c.own, l); own >= 0 {
				to.add(len(to.entries)-1, field(own))
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

// faults looks for faults of the values, as readCounted does for files. All ranks of a
// team call it, at the same place.
func (c *storedCensus) faults(ranks *team.Team) (warnings []string, err error) {
	for _, c := range []*census{&c.forecasts, &c.analyses} {
		if ranks.Own() != nil {
			if err := c.join(ranks); err != nil {
				return nil, err
			}
		}
		noticed, err := refusal(c.faults())
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, noticed...)
	}
	return warnings, nil
}

// storeGrid is the grid of a store.
func storeGrid(ctx context.Context, dir string) (*ensemble.Grid, error) {
	s, err := store.Open(ctx, dir, store.OpenOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Grid, nil
}

// inspectStore lists what a sample store holds. With statistics all its bytes are
// compared with their checksums too.
func inspectStore(ctx context.Context, o InspectOptions, w io.Writer) error {
	s, err := store.Open(ctx, o.Files[0], store.OpenOptions{})
	if err == nil {
		defer s.Close()
		if o.Stats {
			err = s.Verify(ctx)
		}
	}
	if o.JSON {
		frame := answer.New("inspect", o.Version, err)
		if s == nil {
			return frame.Write(w, nil)
		}
		m := *s.Meta
		if !o.Stats {
			m.Statistics = nil
		}
		if werr := frame.Write(w, map[string]any{"store": &m}); werr != nil {
			return werr
		}
		return err
	}
	if s == nil {
		return err
	}
	if werr := writeStore(w, s, o.Stats && err == nil); werr != nil {
		return werr
	}
	return err
}

// writeStore prints what a store holds.
func writeStore(w io.Writer, s *store.Store, stats bool) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	axes, inits := s.Axes(), s.Inits()
	var variables []string
	for _, v := range s.Variables {
		variables = append(variables, v.Name+" ("+v.Unit+")")
	}
	row("sample store", "format %d, %s, %d bytes in %d shards", s.Format, s.Storage, s.Bytes(), len(s.Shards))
	row("variables", "%s", strings.Join(variables, ", "))
	row("levels", "%s", some(axes.Levels))
	row("leads", "%s", some(axes.Leads))
	row("members", "%s", members(s.Members))
	row("starts", "%s", some(inits))
	if len(s.Analyses.Variables) > 0 {
		row("analyses", "%s at %s", strings.Join(s.Analyses.Variables, ", "), some(s.AnalysisLeads()))
	}
	row("grid", "%s", s.Grid)
	row("bands", "%d rows each", s.BandRows)
	row("made by", "%s, of %d files", s.Version, len(s.Inputs))
	if stats {
		fmt.Fprintln(tw, "\nall checksums are right\t\n\nKIND\tLEAD\tVARIABLE\tLEVEL\tMISSING\tMIN\tMEAN\tSD\tMAX")
		for _, x := range s.Statistics {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%.6g\t%.6g\t%.6g\t%.6g\n", x.Kind, ensemble.Lead(time.Duration(x.Lead)*time.Second), x.Variable, x.Level, x.Missing, x.Min, x.Mean, x.SD, x.Max)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// trainingFiles are the files by which a training knows its data: those of the archive,
// or of a store the description alone, which has the checksums of the others.
func trainingFiles(c *config.TrainConfig) (forecasts, analyses []string, err error) {
	if dir := string(c.Data.Store); dir != "" {
		return []string{filepath.Join(dir, store.Description)}, nil, nil
	}
	return archiveFiles(c)
}
