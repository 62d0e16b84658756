// Package protocolfile reads protocol.yaml, the description of a benchmark on an archive of hindcasts, and contains the built-in
// protocols. Reading and merging are those of package config.
package protocolfile

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// Protocol is protocol.yaml, the description of a benchmark on an archive of hindcasts: layout of
// the files, tasks, data split and scoring.
type Protocol struct {
	Version   int              `key:"version"`
	Base      string           `key:"base"`
	Title     string           `key:"title"`
	Sources   []string         `key:"sources"`
	Terms     []string         `key:"terms"`
	Assumed   []string         `key:"assumed"`
	Grid      Grid             `key:"grid"`
	Hindcasts Hindcasts        `key:"hindcasts"`
	Analyses  Reanalyses       `key:"analyses"`
	Split     Split            `key:"split"`
	Scoring   Scoring          `key:"scoring"`
	Tasks     []Task           `key:"tasks"`
	Published []PublishedScore `key:"published"`
}

// Grid is a regular latitude-longitude grid.
//
// Unit: degrees, coordinates of the first and last points.
type Grid struct {
	Rows    int     `key:"rows"`
	Columns int     `key:"columns"`
	North   float64 `key:"north"`
	South   float64 `key:"south"`
	West    float64 `key:"west"`
	East    float64 `key:"east"`
}

// Hindcasts describes the ensembles: one set of files for each calendar day, with all years.
type Hindcasts struct {
	ReferenceYear int             `key:"reference_year"`
	FirstYear     int             `key:"first_year"`
	LastYear      int             `key:"last_year"`
	Dates         []string        `key:"dates"` // MMDD
	Members       int             `key:"members"`
	FirstMember   int             `key:"first_member"`
	Leads         []ensemble.Lead `key:"leads"`
	Files         []HindcastFile  `key:"files"`
}

// HindcastFile describes one file of a calendar day.
type HindcastFile struct {
	Name      string           `key:"name"`
	Levels    []ensemble.Level `key:"levels"`
	Variables []string         `key:"variables"`
}

// Reanalyses describes the verifying analyses: one set of files for each month.
type Reanalyses struct {
	Leads []ensemble.Lead  `key:"leads"`
	Files []ReanalysisFile `key:"files"`
}

// ReanalysisFile describes one file of a month; CDS lists the names of Variables in the Climate
// Data Store.
type ReanalysisFile struct {
	Name      string           `key:"name"`
	Dataset   string           `key:"dataset"`
	Levels    []ensemble.Level `key:"levels"`
	Variables []string         `key:"variables"`
	CDS       []string         `key:"cds"`
}

// Split divides the initialisations by date. Validation may be empty.
type Split struct {
	Train      config.Period `key:"train"`
	Validation config.Period `key:"validation"`
	Test       config.Period `key:"test"`
}

// Scoring describes how the published scores were computed.
type Scoring struct {
	Weights    string `key:"weights"`
	SpreadDDOF int    `key:"spread_ddof"`
	EFI        EFI    `key:"efi"`
}

// EFI describes the extreme forecast index in EECRPS = |EFI|·CRPS. Window 0: the protocol has
// none.
type EFI struct {
	Quantiles int `key:"quantiles"`
	Years     int `key:"years"`
	Window    int `key:"window"`
	MinDays   int `key:"min_days"`
}

// Task is a variable to predict, with its inputs.
type Task struct {
	Name     string         `key:"name"`
	Variable string         `key:"variable"`
	Level    ensemble.Level `key:"level"`
	Lead     ensemble.Lead  `key:"lead"`
	Inputs   []string       `key:"inputs"`
}

// PublishedScore is a published score on the test data. Tolerance is relative.
type PublishedScore struct {
	Score      string  `key:"score"`
	Task       string  `key:"task"`
	System     string  `key:"system"`
	Members    int     `key:"members"`
	Value      float64 `key:"value"`
	Tolerance  float64 `key:"tolerance"`
	Provenance string  `key:"provenance"`
}

// Schema is the schema of protocol.yaml.
var Schema = config.NewFileSchema[Protocol]("protocol", "the name of a protocol", []schema.Key{
	{Path: "version", Required: true, Check: config.OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "base", Example: "ens10",
		Help: "Built-in protocol that supplies the keys missing in this file, except published scores."},
	{Path: "title", Required: true, Example: "ENS-10",
		Help: "Name of the benchmark."},
	{Path: "sources", Required: true, Example: `["arXiv:2206.14786"]`,
		Help: "Sources of the facts in this file."},
	{Path: "terms", Required: true, Example: `["CC BY 4.0"]`,
		Help: "Licences and terms of use of the data."},
	{Path: "assumed", Example: `["order of the messages"]`,
		Help: "Assumptions that no source confirms."},

	{Path: "grid.rows", Required: true, Check: config.Between(2, 65535), Example: "361", Help: "Rows of the grid, poles included."},
	{Path: "grid.columns", Required: true, Check: config.Between(2, 65535), Example: "720", Help: "Columns of the grid."},
	{Path: "grid.north", Default: "90", Check: config.Between(-90, 90), Example: "90", Help: "Latitude of the first row, degrees."},
	{Path: "grid.south", Default: "-90", Check: config.Between(-90, 90), Example: "-90", Help: "Latitude of the last row, degrees."},
	{Path: "grid.west", Default: "0", Check: config.Between(-180, 360), Example: "0", Help: "Longitude of the first column, degrees east."},
	{Path: "grid.east", Required: true, Check: config.Between(-180, 360), Example: "359.5", Help: "Longitude of the last column, degrees east."},

	{Path: "hindcasts.reference_year", Required: true, Check: config.Between(1900, 2100), Example: "2018",
		Help: "Year in the file names: that of the real-time forecasts of these hindcasts. Dates within the files are those of the hindcasts."},
	{Path: "hindcasts.first_year", Required: true, Check: config.Between(1900, 2100), Example: "1998", Help: "First year of the initialisations."},
	{Path: "hindcasts.last_year", Required: true, Check: config.Between(1900, 2100), Example: "2017", Help: "Last year of the initialisations."},
	{Path: "hindcasts.dates", Required: true, Example: `["0101", "0104"]`,
		Help: "Calendar days of the initialisations as MMDD. 0229 applies to leap years only."},
	{Path: "hindcasts.members", Required: true, Check: config.Between(2, 255), Example: "10", Help: "Number of members."},
	{Path: "hindcasts.first_member", Default: "1", Check: config.Between(0, 1), Example: "1", Help: "Number of the first member; 0 is the control."},
	{Path: "hindcasts.leads", Required: true, Check: config.AtLeast(0), Example: "[0h, 24h, 48h]", Help: "Leads, ascending."},
	{Path: "hindcasts.files", Required: true, Example: `[{name: "output.pl.{date}", levels: [850hPa], variables: [t]}]`,
		Help: "Files for each calendar day."},
	{Path: "hindcasts.files[].name", Required: true, Example: "output.pl.{date}", Help: "File name; {date} is replaced by reference year, month and day."},
	{Path: "hindcasts.files[].levels", Required: true, Example: "[850hPa]", Help: "Levels, or [single]."},
	{Path: "hindcasts.files[].variables", Required: true, Example: "[t]", Help: "Variables on each level."},

	{Path: "analyses.leads", Required: true, Check: config.AtLeast(0), Example: "[0h, 48h]",
		Help: "Leads at whose valid times there are analyses."},
	{Path: "analyses.files", Required: true, Example: `[{name: "era5.{month}.grib", dataset: reanalysis-era5-pressure-levels, levels: [850hPa], variables: [t], cds: [temperature]}]`,
		Help: "Files for each month."},
	{Path: "analyses.files[].name", Required: true, Example: "era5.pl.{month}.grib", Help: "File name; {month} is replaced by year and month."},
	{Path: "analyses.files[].dataset", Required: true, Example: "reanalysis-era5-pressure-levels", Help: "Data set of the Climate Data Store."},
	{Path: "analyses.files[].levels", Required: true, Example: "[850hPa]", Help: "Levels, or [single]."},
	{Path: "analyses.files[].variables", Required: true, Example: "[t]", Help: "Variables on each level."},
	{Path: "analyses.files[].cds", Required: true, Example: "[temperature]", Help: "Names of the variables in the Climate Data Store, in the same order."},

	{Path: "split.train.from", Required: true, Example: "1998-01-01", Help: "First initialisation for training."},
	{Path: "split.train.to", Required: true, Example: "2015-12-31", Help: "Last initialisation for training."},
	{Path: "split.validation.from", Example: "2014-01-01", Help: "First initialisation for validation. Default: no validation period."},
	{Path: "split.validation.to", Example: "2015-12-31", Help: "Last initialisation for validation."},
	{Path: "split.test.from", Required: true, Example: "2016-01-01", Help: "First initialisation for the test."},
	{Path: "split.test.to", Required: true, Example: "2017-12-31", Help: "Last initialisation for the test."},

	{Path: "scoring.weights", Required: true, Check: config.OneOf("area", "none"), Example: "none",
		Help: "Weights of grid points in the published scores: area, or none."},
	{Path: "scoring.spread_ddof", Required: true, Check: config.OneOf("0", "1"), Example: "0",
		Help: "Delta degrees of freedom of the spread in the reference scripts: the divisor is members minus this. CDO's daystd over the members of a date has 0."},
	{Path: "scoring.efi.quantiles", Default: "0", Check: config.Between(0, 1000), Example: "20", Help: "Number of quantile intervals of the index between probabilities 0 and 1."},
	{Path: "scoring.efi.years", Default: "0", Check: config.Between(0, 1000), Example: "18", Help: "Number of years of the climate, up to the year of the initialisation."},
	{Path: "scoring.efi.window", Default: "0", Check: config.Between(0, 1000), Example: "9", Help: "Consecutive calendar days of the climate, centred on the day of the initialisation; 0: no extreme forecast index."},
	{Path: "scoring.efi.min_days", Default: "0", Check: config.Between(0, 1000), Example: "5", Help: "Smallest number of calendar days in the window at the ends of the year."},

	{Path: "tasks", Required: true, Example: "[{name: t850, variable: t, level: 850hPa, lead: 48h, inputs: [t]}]",
		Help: "Prediction tasks."},
	{Path: "tasks[].name", Required: true, Example: "t850", Help: "Name of the task and of its configuration in the experiment."},
	{Path: "tasks[].variable", Required: true, Example: "t", Help: "Variable to predict."},
	{Path: "tasks[].level", Required: true, Example: "850hPa", Help: "Level of the variable, or single."},
	{Path: "tasks[].lead", Required: true, Check: config.AtLeast(0), Example: "48h", Help: "Lead to predict."},
	{Path: "tasks[].inputs", Required: true, Example: "[z, t, q]", Help: "Input variables, on the level of the task."},

	{Path: "published", Example: "[{score: crps, task: z500, system: raw, members: 10, value: 78.24, provenance: summary}]",
		Help: "Published scores on the test data."},
	{Path: "published[].score", Required: true, Check: config.OneOf("crps", "eecrps"), Example: "crps", Help: "Score, in the SI unit of the variable."},
	{Path: "published[].task", Required: true, Example: "z500", Help: "Name of a task."},
	{Path: "published[].system", Required: true, Example: "raw", Help: "Forecast system."},
	{Path: "published[].members", Required: true, Check: config.Between(1, 255), Example: "10", Help: "Number of input members."},
	{Path: "published[].value", Required: true, Check: config.Above(0), Example: "78.24", Help: "Published value."},
	{Path: "published[].tolerance", Default: "0.02", Check: config.Above(0), Example: "0.02",
		Help: "Largest relative difference of a reproduction, chosen by this project: the sources give none."},
	{Path: "published[].provenance", Required: true, Check: config.OneOf("summary", "unverified"), Example: "summary",
		Help: "Provenance of the value. summary: from a summary of the paper, not its text. unverified: unverified, never used as a check."},
})

// builtInFiles contains the built-in protocols.
//
//go:embed protocols/*.yaml
var builtInFiles embed.FS

// builtInDir is the directory within builtInFiles.
const builtInDir = "protocols"

// baseLine matches the key base, which must be known before the file is loaded.
var baseLine = regexp.MustCompile(`(?m)^base: *([a-z0-9-]+) *$`)

// Names lists the names of the built-in protocols, sorted.
func Names() []string {
	entries, err := builtInFiles.ReadDir(builtInDir)
	if err != nil {
		panic("protocolfile: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Config is a loaded protocol.
type Config struct {
	Protocol
	Name string // name of a built-in protocol, or path of the file
	*config.Loaded
}

// Load loads a built-in protocol by its name, or a file by its path. Environment variables
// have no effect.
//
// Errors: exit 64 with all faults, each with its position and a fix.
func Load(name string) (*Config, error) {
	src := config.Sources{Files: []string{name}, Texts: map[string][]byte{}}
	known := Names()
	for _, n := range known {
		text, err := builtInFiles.ReadFile(path.Join(builtInDir, n+".yaml"))
		if err != nil {
			return nil, err
		}
		src.Texts[n] = text
	}
	unknown := func(name, at string) error {
		fix := "give " + strings.Join(known, ", ") + ", or the path of a file"
		if near := nearest.Find(name, known); near != "" {
			fix = "did you mean `" + near + "`?"
		}
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown protocol %q", name), At: at, Fix: fix}
	}
	text := src.Texts[name]
	if text == nil && !strings.ContainsAny(name, "./") {
		return nil, unknown(name, "the command line")
	}
	if text == nil {
		text = Schema.ReadFile(name).Text // config.Load reports errors of the file
	}
	if m := baseLine.FindSubmatch(text); m != nil {
		base := string(m[1])
		if src.Texts[base] == nil || base == name {
			return nil, unknown(base, name+", base")
		}
		src.Files = []string{base, name}
	}
	e, err := config.Load(Schema, src)
	if err != nil {
		return nil, err
	}
	p := &Config{Name: name, Loaded: e}
	e.Fill(&p.Protocol)
	if where := e.Origin("published").Where; p.Base != "" && !strings.HasPrefix(where, name+":") {
		p.Published = nil // scores of the base are for other years, members or grids
	}
	return p, config.JoinFaults(p.check())
}

// check checks years, dates, leads, files and tasks for consistency.
func (p *Config) check() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, p.Fault(path, what, why, fix)) }
	if p.Base != "" && len(p.Files()) != 2 {
		add("base", "base is not recognised", "it must be on a separate line", "write `base: "+p.Base+"` without quotes")
	}
	h := p.Hindcasts
	if h.LastYear < h.FirstYear {
		add("hindcasts.last_year", "hindcasts.last_year is before hindcasts.first_year", fmt.Sprintf("%d to %d", h.FirstYear, h.LastYear), "swap the two")
	}
	for i, d := range h.Dates {
		if _, err := time.Parse("20060102", "2000"+d); err != nil || len(d) != 4 || i > 0 && d <= h.Dates[i-1] {
			add("hindcasts.dates", fmt.Sprintf("invalid or unsorted calendar day %q", d), "", "write month and day, such as \"0229\", ascending, each once")
		}
	}
	if !slices.IsSorted(h.Leads) || len(slices.Compact(slices.Clone(h.Leads))) < len(h.Leads) {
		add("hindcasts.leads", "hindcasts.leads must ascend", config.FormatList(h.Leads), "sort them and list each once")
	}
	for _, l := range p.Analyses.Leads {
		if !slices.Contains(h.Leads, l) {
			add("analyses.leads", fmt.Sprintf("lead %s is not one of hindcasts.leads", l), "", "list leads of hindcasts.leads only")
		}
	}
	if p.Grid.North <= p.Grid.South || p.Grid.East <= p.Grid.West {
		add("grid.north", "the grid is empty", fmt.Sprintf("%g to %g N, %g to %g E", p.Grid.North, p.Grid.South, p.Grid.West, p.Grid.East), "give the corners")
	}
	for _, f := range h.Files {
		if !strings.Contains(f.Name, "{date}") {
			add("hindcasts.files", fmt.Sprintf("file name %q has no {date}", f.Name), "each calendar day needs its own files", "write {date} in the place of the date")
		}
	}
	for _, f := range p.Analyses.Files {
		if !strings.Contains(f.Name, "{month}") {
			add("analyses.files", fmt.Sprintf("file name %q has no {month}", f.Name), "each month needs its own files", "write {month} in the place of year and month")
		}
		if len(f.CDS) != len(f.Variables) {
			add("analyses.files", fmt.Sprintf("%s: %d variables but %d names in cds", f.Name, len(f.Variables), len(f.CDS)), "", "list one name of the Climate Data Store for each variable")
		}
	}
	for _, t := range p.Tasks {
		holds := func(f HindcastFile) bool {
			return slices.Contains(f.Levels, t.Level) && !slices.ContainsFunc(append([]string{t.Variable}, t.Inputs...), func(v string) bool { return !slices.Contains(f.Variables, v) })
		}
		if !slices.ContainsFunc(h.Files, holds) || !slices.Contains(p.Analyses.Leads, t.Lead) {
			add("tasks", fmt.Sprintf("no file contains the inputs of task %s", t.Name), "", "list inputs of one file, and a lead of analyses.leads")
		}
	}
	for _, s := range p.Published {
		if !slices.ContainsFunc(p.Tasks, func(t Task) bool { return t.Name == s.Task }) {
			add("published", fmt.Sprintf("unknown task %q of a published score", s.Task), "", "use the name of a task")
		}
	}
	return faults
}

// Subset returns a subset of a protocol: a range of years, dates calendar days spread over the year,
// a coarser grid and fewer members. Zero keeps the value of the protocol.
//
// Errors: exit 64 for a range outside of the protocol.
func (p *Config) Subset(firstYear, lastYear, dates, rows, columns, members int) (*Config, error) {
	q := *p
	h := &q.Hindcasts
	refuse := func(what, why string) (*Config, error) {
		return nil, &exit.Error{Code: exit.Usage, What: what, At: "the command line", Why: why, Fix: "choose a subset of the protocol"}
	}
	if firstYear != 0 || lastYear != 0 {
		if firstYear < h.FirstYear || lastYear > h.LastYear || lastYear < firstYear {
			return refuse(fmt.Sprintf("years %d to %d are not in the protocol", firstYear, lastYear), fmt.Sprintf("it has %d to %d", h.FirstYear, h.LastYear))
		}
		h.FirstYear, h.LastYear = firstYear, lastYear
	}
	if dates < 0 || dates > len(h.Dates) {
		return refuse(fmt.Sprintf("%d calendar days", dates), fmt.Sprintf("the protocol has %d", len(h.Dates)))
	}
	if dates > 0 {
		all := h.Dates
		h.Dates = nil
		for i := range dates { // spread over the year
			h.Dates = append(h.Dates, all[i*len(all)/dates])
		}
	}
	if members < 0 || members == 1 || members > h.Members {
		return refuse(fmt.Sprintf("%d members", members), fmt.Sprintf("the protocol has %d, and the spread needs 2", h.Members))
	}
	if members > 0 {
		h.Members = members
	}
	if rows != 0 || columns != 0 {
		if rows < 2 || columns < 2 || rows > q.Grid.Rows || columns > q.Grid.Columns {
			return refuse(fmt.Sprintf("a grid of %d×%d points", rows, columns), fmt.Sprintf("the protocol's has %d×%d", q.Grid.Rows, q.Grid.Columns))
		}
		g := &q.Grid
		if step := (g.East - g.West) / float64(g.Columns-1); step*float64(g.Columns) > 360-step/2 { // the grid is global
			g.East = g.West + 360 - 360/float64(columns)
		}
		g.Rows, g.Columns = rows, columns
	}
	return &q, nil
}

// Inits lists the initialisations of the given calendar days, or of all, ascending. 29 February
// is omitted in common years.
func (h Hindcasts) Inits(dates ...string) []ensemble.Init {
	if dates == nil {
		dates = h.Dates
	}
	var out []ensemble.Init
	for year := h.FirstYear; year <= h.LastYear; year++ {
		for _, d := range dates {
			if t, err := time.Parse("20060102", fmt.Sprintf("%04d%s", year, d)); err == nil {
				out = append(out, ensemble.InitAt(t))
			}
		}
	}
	return out
}

// Path is the file name for a calendar day (MMDD).
func (f HindcastFile) Path(reference int, date string) string {
	return strings.ReplaceAll(f.Name, "{date}", fmt.Sprintf("%04d%s", reference, date))
}

// Path is the file name for a month.
func (f ReanalysisFile) Path(month time.Time) string {
	return strings.ReplaceAll(f.Name, "{month}", month.Format("200601"))
}

// Months lists the months with analyses, and the valid times of each, ascending.
func (p *Protocol) Months() (months []time.Time, valids map[time.Time][]ensemble.Valid) {
	valids = map[time.Time][]ensemble.Valid{}
	for _, s := range p.Hindcasts.Inits() {
		for _, l := range p.Analyses.Leads {
			v := s.Valid(l)
			m := time.Date(v.Year(), v.Month(), 1, 0, 0, 0, 0, time.UTC)
			if valids[m] == nil {
				months = append(months, m)
			}
			if !slices.Contains(valids[m], v) {
				valids[m] = append(valids[m], v)
			}
		}
	}
	slices.SortFunc(months, time.Time.Compare)
	for _, list := range valids {
		slices.SortFunc(list, func(a, b ensemble.Valid) int { return a.Compare(b.Time) })
	}
	return months, valids
}
