package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/protocolfile"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/run/plan"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/store"
)

// protocolGrid returns the grid of a protocol.
func protocolGrid(g protocolfile.Grid) *ensemble.Grid {
	axis := func(n int, from, to float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = from + (to-from)*float64(i)/float64(n-1)
		}
		return x
	}
	return &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: g.Columns, NY: g.Rows, Lat: axis(g.Rows, g.North, g.South), Lon: axis(g.Columns, g.West, g.East)}
}

// SynthesizeOptions are the inputs of [Synthesize].
type SynthesizeOptions struct {
	Protocol *protocolfile.Config // possibly reduced to some dates or variables
	Out      string               // folder of the archive
	Seed     uint64               // seed of the synthetic weather
	Threads  int                  // 0: all cores
	Version  string
	Progress *progress.Reporter // nil shows nothing
}

// SynthesizeResult is the outcome of Synthesize.
type SynthesizeResult struct {
	Out     string   `json:"out"`
	Inits   int      `json:"inits"`
	Files   int      `json:"files"`
	Fields  int      `json:"fields"`
	Bytes   int64    `json:"bytes"`
	Outputs []string `json:"-"`
}

// SyntheticRecord marks a synthetic archive, whose file names are those of real data. It is written first,
// and again last.
const SyntheticRecord = "synthetic.json"

// Synthesize writes an archive of synthetic data from package demo in the layout of a protocol.
//
// Writes: the files of the protocol and synthetic.json in Options.Out.
// Errors: exit 73 for a folder with other content, which may be real data; 74.
func Synthesize(ctx context.Context, o SynthesizeOptions) (*SynthesizeResult, error) {
	p := o.Protocol
	if err := filesystem.MkdirAll(o.Out, 0o777); err != nil {
		return nil, exit.CreateError(o.Out, err)
	}
	record := filepath.Join(o.Out, SyntheticRecord)
	if entries, err := filesystem.ReadDir(o.Out); err != nil {
		return nil, exit.CreateError(o.Out, err)
	} else if _, err := filesystem.Stat(record); len(entries) > 0 && errors.Is(err, fs.ErrNotExist) {
		return nil, &exit.Error{Code: exit.CannotWrite, What: "the folder is not empty", At: o.Out, Why: "it contains " + entries[0].Name() + " but no synthetic archive",
			Fix: "choose another folder, as synthetic files have the names of real ones"}
	}
	about := struct {
		Schema   string `json:"schema"`
		About    string `json:"about"`
		Protocol string `json:"protocol"`
		Version  string `json:"version"`
		Seed     uint64 `json:"seed"`
		Complete bool   `json:"complete"`
	}{"ensemble.synthetic/1", "synthetic data in the layout of " + p.Title + "; not data of any centre", p.Name, o.Version, o.Seed, false}
	write := func() error { return jsonfile.Write(record, about) }
	if err := write(); err != nil {
		return nil, err
	}
	h := p.Hindcasts
	a := demo.Archive{Seed: o.Seed, Leads: h.Leads, Members: h.Members, FirstMember: h.FirstMember, Grid: protocolGrid(p.Grid), Threads: o.Threads}
	res := &SynthesizeResult{Out: o.Out, Inits: len(h.Inits())}
	file := func(name string, f protocolfile.HindcastFile, each int) demo.ArchiveFile {
		path := filepath.Join(o.Out, name)
		res.Outputs = append(res.Outputs, path)
		res.Fields += each * len(f.Levels) * len(f.Variables)
		return demo.ArchiveFile{Path: path, Variables: f.Variables, Levels: f.Levels}
	}
	for _, date := range h.Dates {
		inits := h.Inits(date)
		if len(inits) == 0 {
			continue
		}
		d := demo.ArchiveDay{Inits: inits, Reference: referenceDate(h, date)}
		for _, f := range h.Files {
			d.Files = append(d.Files, file(f.Path(h.ReferenceYear, date), f, len(inits)*len(h.Leads)*h.Members))
		}
		a.Days = append(a.Days, d)
	}
	months, valids := p.Months()
	for _, m := range months {
		d := demo.ArchiveMonth{ValidTimes: valids[m]}
		for _, f := range p.Analyses.Files {
			d.Files = append(d.Files, file(f.Path(m), protocolfile.HindcastFile{Levels: f.Levels, Variables: f.Variables}, len(valids[m])))
		}
		a.Months = append(a.Months, d)
	}
	var task *progress.Task
	defer func() { task.Done() }()
	a.Progress = func(stage string, done, all int) {
		if done == 0 { // the stage begins, without writers
			task.Done()
			task = o.Progress.Start(stage, int64(all))
			return
		}
		task.Set(int64(done), "")
	}
	if err := a.Write(ctx); err != nil {
		return nil, err
	}
	for _, path := range res.Outputs {
		s, err := filesystem.Stat(path)
		if err != nil {
			return nil, exit.ReadError(path, err)
		}
		res.Bytes += s.Size()
	}
	res.Files = len(res.Outputs)
	res.Outputs = append(res.Outputs, record)
	about.Complete = true
	return res, write()
}

// referenceDate returns the date of the forecasts whose hindcasts belong to a calendar day. In a reference
// year without 29 February it is the day before.
func referenceDate(h protocolfile.Hindcasts, date string) time.Time {
	t, err := time.Parse("20060102", fmt.Sprintf("%04d%s", h.ReferenceYear, date))
	if err != nil {
		t = time.Date(h.ReferenceYear, 2, 28, 0, 0, 0, 0, time.UTC)
	}
	return t
}

// RequestOptions are the inputs of [Request].
type RequestOptions struct {
	Protocol *protocolfile.Config
	Out      string  // folder of the requests; empty: write none
	DiskGBs  float64 // rate at which the archive is read, for the duration of `data prepare`
	// Plan is the training to estimate; its Crop is ignored. Nil: none.
	Plan *plan.Options
}

// RequestResult describes the data of a protocol. Sizes are computed; nothing is downloaded.
type RequestResult struct {
	Protocol  string             `json:"protocol"`
	Title     string             `json:"title"`
	Sources   []string           `json:"sources"`
	Terms     []string           `json:"terms"`   // licences to accept
	Assumed   []string           `json:"assumed"` // assumptions where the source gives no value
	Inits     int                `json:"inits"`   // initialisations
	Fields    int64              `json:"fields"`
	Bytes     int64              `json:"bytes"`
	Files     []RequestedFile    `json:"files"`
	Stores    []RequestedStore   `json:"stores"`
	Prepare   RequestedPrepare   `json:"prepare"`
	Training  *RequestedTraining `json:"training,omitempty"`
	Published int                `json:"published_scores"` // number of published scores to reproduce
	Outputs   []string           `json:"-"`
}

// RequestedFile is one file of the archive.
type RequestedFile struct {
	Name    string `json:"name"`
	Fields  int64  `json:"fields"`
	Bytes   int64  `json:"bytes"`
	Request string `json:"request"` // archive that provides it
	kind    string // kind of the request
}

// RequestedStore is the size of a task's sample store, by storage.
type RequestedStore struct {
	Task  string           `json:"task"`
	Bytes map[string]int64 `json:"bytes"` // by storage, as samples.StorageNames
}

// RequestedPrepare are the costs of `data prepare` for all hindcast files, in addition to its --memory: the
// catalogue of the largest task, the index of each file that is read concurrently, and reading everything
// twice, for checksums and values.
type RequestedPrepare struct {
	CatalogueBytes int64   `json:"catalogue_bytes"`
	IndexBytes     int64   `json:"index_bytes"` // per file
	DiskGBs        float64 `json:"disk_gb_s"`
	Seconds        float64 `json:"read_s"` // reading everything twice
}

// RequestedTraining is the predicted cost of a training, without validation.
type RequestedTraining struct {
	Machine     plan.Machine `json:"machine"`
	Ranks       int          `json:"ranks"`
	Mesh        string       `json:"mesh"`
	Inits       int          `json:"train_inits"`
	StepS       float64      `json:"step_s"` // seconds per step
	Steps       int          `json:"steps"`
	Seconds     float64      `json:"train_s"`      // time of all steps
	MemoryBytes int64        `json:"memory_bytes"` // per rank
}

// Memory per field while a store is prepared (docs/formats/store.md): for a requested field, and for one in a
// file that is being indexed.
const (
	catalogueBytes = 1 << 10
	indexBytes     = 3 << 9
)

// Request computes the size of a protocol's data and writes download requests: one MARS request per hindcast
// file, one request to the Climate Data Store per analysis file.
//
// Writes: the requests and files.tsv in Options.Out.
// Errors: those of plan.Run; exit 73 and 74 for the folder.
func Request(ctx context.Context, o RequestOptions) (*RequestResult, error) {
	p := o.Protocol
	h := p.Hindcasts
	grid := protocolGrid(p.Grid)
	r := &RequestResult{Protocol: p.Name, Title: p.Title, Sources: p.Sources, Terms: p.Terms, Assumed: p.Assumed, Inits: len(h.Inits()), Published: len(p.Published)}
	var hindcasts, largest int64
	for _, date := range h.Dates {
		inits := h.Inits(date)
		for _, f := range h.Files {
			n := int64(len(inits) * len(h.Leads) * h.Members * len(f.Levels) * len(f.Variables))
			r.Files = append(r.Files, RequestedFile{Name: f.Path(h.ReferenceYear, date), Fields: n, Bytes: n * demo.MessageBytes(grid.Size(), true),
				Request: marsRequest(p, f, date, inits), kind: "mars"})
			hindcasts += r.Files[len(r.Files)-1].Bytes
			largest = max(largest, n)
		}
	}
	months, valids := p.Months()
	for _, m := range months {
		for _, f := range p.Analyses.Files {
			n := int64(len(valids[m]) * len(f.Levels) * len(f.Variables))
			text, err := cdsRequest(p, f, valids[m])
			if err != nil {
				return nil, err
			}
			r.Files = append(r.Files, RequestedFile{Name: f.Path(m), Fields: n, Bytes: n * demo.MessageBytes(grid.Size(), false), Request: text, kind: "json"})
		}
	}
	for _, f := range r.Files {
		r.Fields += f.Fields
		r.Bytes += f.Bytes
	}
	var asked int64 // the task with most fields
	for _, t := range p.Tasks {
		asked = max(asked, int64(len(h.Inits())*len(h.Leads)*h.Members*len(t.Inputs)))
		s := RequestedStore{Task: t.Name, Bytes: map[string]int64{}}
		plan := store.Plan{Axes: ensemble.Axes{Variables: t.Inputs, Levels: []ensemble.Level{t.Level}, Leads: h.Leads}, Grid: grid, Inits: h.Inits(),
			AnalysisVariables: []string{t.Variable}, AnalysisLeads: []ensemble.Lead{t.Lead}}
		for m := range h.Members {
			plan.Members = append(plan.Members, ensemble.Member(h.FirstMember+m))
		}
		for _, plan.Storage = range store.Storages {
			n, err := store.Size(plan)
			if err != nil {
				return nil, err
			}
			s.Bytes[string(plan.Storage)] = n
		}
		r.Stores = append(r.Stores, s)
	}
	r.Prepare = RequestedPrepare{CatalogueBytes: catalogueBytes * asked, IndexBytes: indexBytes * largest, DiskGBs: o.DiskGBs, Seconds: 2 * float64(hindcasts) / (o.DiskGBs * 1e9)}
	if o.Plan != nil {
		var err error
		if r.Training, err = planTraining(ctx, p, *o.Plan); err != nil {
			return nil, err
		}
	}
	return r, r.write(o.Out)
}

// planTraining predicts a training on the initialisations of a protocol. In a training with stages every step
// counts as one of the last stage.
func planTraining(ctx context.Context, p *protocolfile.Config, o plan.Options) (*RequestedTraining, error) {
	o.Crop = setup.Crop{Height: p.Grid.Rows, Width: p.Grid.Columns}
	split, err := setup.ApplySplit(o.Config.Data.Split, p.Hindcasts.Inits())
	if err != nil {
		return nil, err
	}
	plan, err := plan.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	c := o.Config.Train.Train
	trainings, _, err := setup.NetworkTrainings(setup.SpecOf(o.Config), c, split.Train, setup.LastTarget(o.Config))
	if err != nil {
		return nil, err
	}
	steps := 0
	for _, j := range trainings {
		n := len(split.Train)
		if j.Samples != nil {
			n = len(j.Samples)
		}
		steps += j.Config.Epochs * ((n + c.BatchSize - 1) / c.BatchSize)
	}
	t := &RequestedTraining{Machine: plan.Machine, Ranks: plan.Ranks, Mesh: plan.Plan.Mesh, Inits: len(split.Train), StepS: plan.Plan.StepS, Steps: steps,
		MemoryBytes: plan.Plan.MemoryBytes}
	t.Seconds = t.StepS * float64(t.Steps)
	return t, nil
}

// marsRequest returns the MARS request for a hindcast file.
func marsRequest(p *protocolfile.Config, f protocolfile.HindcastFile, date string, inits []ensemble.Init) string {
	h := p.Hindcasts
	var params, levels, hdates, steps []string
	for _, v := range f.Variables {
		known, _ := ensemble.VariableNamed(v)
		params = append(params, fmt.Sprintf("%d.128", known.Table128))
	}
	kind := "sfc"
	for _, l := range f.Levels {
		if l.Kind == ensemble.Pressure {
			kind, levels = "pl", append(levels, decimal(l.Value/100))
		}
	}
	for _, s := range inits {
		hdates = append(hdates, s.Format(time.DateOnly))
	}
	for _, l := range h.Leads {
		steps = append(steps, decimal(l.Hours()))
	}
	var b strings.Builder
	key := func(name string, values ...string) {
		fmt.Fprintf(&b, ",\n    %-8s = %s", name, strings.Join(values, "/"))
	}
	b.WriteString("retrieve")
	key("class", "od")
	key("stream", "enfh")
	key("expver", "1")
	key("type", "pf")
	key("date", referenceDate(h, date).Format(time.DateOnly))
	key("hdate", hdates...)
	key("time", "00:00:00")
	key("step", steps...)
	key("number", strconv.Itoa(h.FirstMember), "to", strconv.Itoa(h.FirstMember+h.Members-1))
	key("levtype", kind)
	if levels != nil {
		key("levelist", levels...)
	}
	key("param", params...)
	dy, dx := spacing(p.Grid)
	key("grid", decimal(dx), decimal(dy))
	if g := p.Grid; !isGlobal(g) {
		key("area", decimal(g.North), decimal(g.West), decimal(g.South), decimal(g.East))
	}
	key("target", strconv.Quote(f.Path(h.ReferenceYear, date)))
	b.WriteByte('\n')
	return b.String()
}

// cdsRequest returns the Climate Data Store request for an analysis file.
func cdsRequest(p *protocolfile.Config, f protocolfile.ReanalysisFile, valids []ensemble.Valid) (string, error) {
	request := map[string]any{"product_type": []string{"reanalysis"}, "variable": f.CDS, "data_format": "grib", "download_format": "unarchived",
		"year": []string{valids[0].Format("2006")}, "month": []string{valids[0].Format("01")}}
	var days, times, levels []string
	for _, v := range valids {
		days, times = append(days, v.Format("02")), append(times, v.Format("15:04"))
	}
	slices.Sort(times)
	request["day"], request["time"] = slices.Compact(days), slices.Compact(times)
	for _, l := range f.Levels {
		if l.Kind == ensemble.Pressure {
			levels = append(levels, decimal(l.Value/100))
		}
	}
	if levels != nil {
		request["pressure_level"] = levels
	}
	dy, dx := spacing(p.Grid)
	request["grid"] = []float64{dx, dy}
	if g := p.Grid; !isGlobal(g) {
		request["area"] = []float64{g.North, g.West, g.South, g.East}
	}
	text, err := json.MarshalIndent(map[string]any{"dataset": f.Dataset, "request": request, "target": f.Path(valids[0].Time)}, "", " ")
	return string(text) + "\n", err
}

// decimal formats a number without exponent.
func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// spacing returns the distance of rows and columns in degrees.
func spacing(g protocolfile.Grid) (rows, columns float64) {
	return (g.North - g.South) / float64(g.Rows-1), (g.East - g.West) / float64(g.Columns-1)
}

// isGlobal reports whether the grid covers all longitudes.
func isGlobal(g protocolfile.Grid) bool { return protocolGrid(g).Periodic() }

// write writes the requests, one file each, named after the file that it requests, and their list.
func (r *RequestResult) write(dir string) error {
	if dir == "" {
		return nil
	}
	if err := filesystem.MkdirAll(dir, 0o777); err != nil {
		return exit.CreateError(dir, err)
	}
	put := func(name string, text []byte) error {
		path := filepath.Join(dir, name)
		r.Outputs = append(r.Outputs, path)
		return exit.CreateError(path, atomicfile.WriteFile(path, text))
	}
	var list bytes.Buffer
	list.WriteString("name\tfields\tbytes\n")
	for _, f := range r.Files {
		fmt.Fprintf(&list, "%s\t%d\t%d\n", f.Name, f.Fields, f.Bytes)
		if err := put(f.Name+"."+f.kind, []byte(f.Request)); err != nil {
			return err
		}
	}
	return put("files.tsv", list.Bytes())
}

// Sections returns the description as text.
func (r *RequestResult) Sections() answer.Sections {
	var rows [][2]string
	row := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	size := func(n int64) string {
		if n >= 1e12 {
			return fmt.Sprintf("%.3g TB", float64(n)/1e12)
		}
		return fmt.Sprintf("%.3g GB", float64(n)/1e9)
	}
	first, last := r.Files[0], r.Files[len(r.Files)-1]
	row(r.Title, "%d initialisations, %d fields", r.Inits, r.Fields)
	row("archive", "%d files, %s … %s: %s", len(r.Files), first.Name, last.Name, size(r.Bytes))
	for _, s := range r.Stores {
		var kinds []string
		for _, kind := range store.Storages {
			kinds = append(kinds, fmt.Sprintf("%s %s", kind, size(s.Bytes[string(kind)])))
		}
		row("store of "+s.Task, "%s", strings.Join(kinds, ", "))
	}
	row("prepare", "%s beside --memory, and %s for each decoding child; reading twice at %s GB/s: %s", size(r.Prepare.CatalogueBytes), size(r.Prepare.IndexBytes),
		decimal(r.Prepare.DiskGBs), humanise.Seconds(r.Prepare.Seconds))
	if t := r.Training; t != nil {
		row("training", "predicted on %s, %s, mesh %q: %d steps of %s, %s; %s a rank", t.Machine.Name, humanise.Count(t.Ranks, "rank"), t.Mesh, t.Steps, humanise.Seconds(t.StepS),
			humanise.Seconds(t.Seconds), size(t.MemoryBytes))
	}
	all := answer.Sections{answer.FactsSection(rows...)}
	for _, part := range []struct {
		name string
		text []string
	}{{"terms to accept", r.Terms}, {"assumed, as the source gives no value", r.Assumed}, {"sources", r.Sources}} {
		if len(part.text) > 0 {
			all = append(all, answer.ListSection(part.name, part.text...))
		}
	}
	fetched := "Nothing was downloaded; --out DIR writes the requests."
	if r.Outputs != nil {
		fetched = fmt.Sprintf("Nothing was downloaded; %d requests and files.tsv are in %s.", len(r.Files), filepath.Dir(r.Outputs[0]))
	}
	return append(all, answer.Section{Text: []string{fetched}})
}

// Sections reports what was written.
func (r *SynthesizeResult) Sections() answer.Sections {
	return answer.Sections{{Text: []string{fmt.Sprintf("%s: %d initialisations, %d fields in %d files, %d bytes of synthetic data", r.Out, r.Inits, r.Fields, r.Files, r.Bytes)}}}
}
