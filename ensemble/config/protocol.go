package config

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// Protocol describes a benchmark on an archive of hindcasts: what its files are called and
// hold, what is learned from it and how it is scored. protocol.yaml.
type Protocol struct {
	Version   int              `key:"version"`
	Base      string           `key:"base"`
	Title     string           `key:"title"`
	Sources   []string         `key:"sources"`
	Terms     []string         `key:"terms"`
	Assumed   []string         `key:"assumed"`
	Grid      ProtocolGrid     `key:"grid"`
	Hindcasts Hindcasts        `key:"hindcasts"`
	Analyses  Reanalyses       `key:"analyses"`
	Split     ProtocolSplit    `key:"split"`
	Scoring   ProtocolScoring  `key:"scoring"`
	Tasks     []ProtocolTask   `key:"tasks"`
	Published []PublishedScore `key:"published"`
}

// ProtocolGrid is a regular grid. Unit: degrees, of its first and last points.
type ProtocolGrid struct {
	Rows    int     `key:"rows"`
	Columns int     `key:"columns"`
	North   float64 `key:"north"`
	South   float64 `key:"south"`
	West    float64 `key:"west"`
	East    float64 `key:"east"`
}

// Hindcasts are the ensembles: one set of files a calendar day, with all years in each.
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

// HindcastFile is one file of a calendar day.
type HindcastFile struct {
	Name      string           `key:"name"`
	Levels    []ensemble.Level `key:"levels"`
	Variables []string         `key:"variables"`
}

// Reanalyses are what forecasts are compared with: one set of files a month.
type Reanalyses struct {
	Leads []ensemble.Lead  `key:"leads"`
	Files []ReanalysisFile `key:"files"`
}

// ReanalysisFile is one file of a month; CDS has the names of Variables in the
// Climate Data Store.
type ReanalysisFile struct {
	Name      string           `key:"name"`
	Dataset   string           `key:"dataset"`
	Levels    []ensemble.Level `key:"levels"`
	Variables []string         `key:"variables"`
	CDS       []string         `key:"cds"`
}

// ProtocolSplit is what each part of the starts is for. Validation may be empty.
type ProtocolSplit struct {
	Train      Period `key:"train"`
	Validation Period `key:"validation"`
	Test       Period `key:"test"`
}

// ProtocolScoring is how the published scores were made.
type ProtocolScoring struct {
	Weights    string `key:"weights"`
	SpreadDDOF int    `key:"spread_ddof"`
	EFI        EFI    `key:"efi"`
}

// EFI is the extreme forecast index behind EECRPS = |EFI|·CRPS; Window 0 says that the
// protocol has none.
type EFI struct {
	Quantiles int `key:"quantiles"`
	Years     int `key:"years"`
	Window    int `key:"window"`
	MinDays   int `key:"least"`
}

// ProtocolTask is one of the variables that are predicted.
type ProtocolTask struct {
	Name     string         `key:"name"`
	Variable string         `key:"variable"`
	Level    ensemble.Level `key:"level"`
	Lead     ensemble.Lead  `key:"lead"`
	Inputs   []string       `key:"inputs"`
}

// PublishedScore is a score that a source gives, of a test with the members of Protocol.
// Tolerance is relative.
type PublishedScore struct {
	Score      string  `key:"score"`
	Task       string  `key:"task"`
	System     string  `key:"system"`
	Members    int     `key:"members"`
	Value      float64 `key:"value"`
	Tolerance  float64 `key:"tolerance"`
	Provenance string  `key:"mark"`
}

// ProtocolSchema describes protocol.yaml.
var ProtocolSchema = newFileSchema[Protocol]("protocol", "the name of a protocol", []Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "base", Example: "ens10",
		Help: "Protocol that is built in, whose keys, but for the published scores, hold where this file has none."},
	{Path: "title", Required: true, Example: "ENS-10",
		Help: "What the benchmark is called."},
	{Path: "sources", Required: true, Example: `["arXiv:2206.14786"]`,
		Help: "Where the facts of this file come from."},
	{Path: "terms", Required: true, Example: `["CC BY 4.0"]`,
		Help: "Licences, and terms that whoever fetches the data has to accept."},
	{Path: "assumed", Example: `["order of the messages"]`,
		Help: "What no source says and is assumed here."},

	{Path: "grid.rows", Required: true, Check: Between(2, 65535), Example: "361", Help: "Rows of the grid, poles included."},
	{Path: "grid.columns", Required: true, Check: Between(2, 65535), Example: "720", Help: "Columns of the grid."},
	{Path: "grid.north", Default: "90", Check: Between(-90, 90), Example: "90", Help: "Latitude of the first row, degrees."},
	{Path: "grid.south", Default: "-90", Check: Between(-90, 90), Example: "-90", Help: "Latitude of the last row, degrees."},
	{Path: "grid.west", Default: "0", Check: Between(-180, 360), Example: "0", Help: "Longitude of the first column, degrees east."},
	{Path: "grid.east", Required: true, Check: Between(-180, 360), Example: "359.5", Help: "Longitude of the last column, degrees east."},

	{Path: "hindcasts.reference_year", Required: true, Check: Between(1900, 2100), Example: "2018",
		Help: "Year that names of files carry: that of the forecasts whose hindcasts these are. The dates inside are those of the hindcasts."},
	{Path: "hindcasts.first_year", Required: true, Check: Between(1900, 2100), Example: "1998", Help: "First year of the starts."},
	{Path: "hindcasts.last_year", Required: true, Check: Between(1900, 2100), Example: "2017", Help: "Last year of the starts."},
	{Path: "hindcasts.dates", Required: true, Example: `["0101", "0104"]`,
		Help: "Calendar days of the starts, month and day. 0229 is a start of leap years only."},
	{Path: "hindcasts.members", Required: true, Check: Between(2, 255), Example: "10", Help: "Members of a start."},
	{Path: "hindcasts.first_member", Default: "1", Check: Between(0, 1), Example: "1", Help: "Number of the first member; 0 is the control."},
	{Path: "hindcasts.leads", Required: true, Check: AtLeast(0), Example: "[0h, 24h, 48h]", Help: "Leads, ascending."},
	{Path: "hindcasts.files", Required: true, Example: `[{name: "output.pl.{date}", levels: [850hPa], variables: [t]}]`,
		Help: "Files of each calendar day."},
	{Path: "hindcasts.files[].name", Required: true, Example: "output.pl.{date}", Help: "Name; {date} stands for reference year, month and day."},
	{Path: "hindcasts.files[].levels", Required: true, Example: "[850hPa]", Help: "Levels, or [single]."},
	{Path: "hindcasts.files[].variables", Required: true, Example: "[t]", Help: "Variables at each of the levels."},

	{Path: "analyses.leads", Required: true, Check: AtLeast(0), Example: "[0h, 48h]",
		Help: "Analyses are those that are valid at these leads of the starts."},
	{Path: "analyses.files", Required: true, Example: `[{name: "era5.{month}.grib", dataset: reanalysis-era5-pressure-levels, levels: [850hPa], variables: [t], cds: [temperature]}]`,
		Help: "Files of each month."},
	{Path: "analyses.files[].name", Required: true, Example: "era5.pl.{month}.grib", Help: "Name; {month} stands for year and month."},
	{Path: "analyses.files[].dataset", Required: true, Example: "reanalysis-era5-pressure-levels", Help: "Data set of the Climate Data Store."},
	{Path: "analyses.files[].levels", Required: true, Example: "[850hPa]", Help: "Levels, or [single]."},
	{Path: "analyses.files[].variables", Required: true, Example: "[t]", Help: "Variables at each of the levels."},
	{Path: "analyses.files[].cds", Required: true, Example: "[temperature]", Help: "What the Climate Data Store calls the variables, in their order."},

	{Path: "split.train.from", Required: true, Example: "1998-01-01", Help: "First start for training."},
	{Path: "split.train.to", Required: true, Example: "2015-12-31", Help: "Last start for training."},
	{Path: "split.validation.from", Example: "2014-01-01", Help: "First start for validation; without it the protocol has none."},
	{Path: "split.validation.to", Example: "2015-12-31", Help: "Last start for validation."},
	{Path: "split.test.from", Required: true, Example: "2016-01-01", Help: "First start for the test."},
	{Path: "split.test.to", Required: true, Example: "2017-12-31", Help: "Last start for the test."},

	{Path: "scoring.weights", Required: true, Check: OneOf("area", "none"), Example: "none",
		Help: "Whether the published scores weight points by their area, or count them alike."},
	{Path: "scoring.spread_ddof", Required: true, Check: OneOf("0", "1"), Example: "0",
		Help: "Divisor of the spread in the reference scripts: members minus this. CDO's daystd over the members of a date has 0."},
	{Path: "scoring.efi.quantiles", Default: "0", Check: Between(0, 1000), Example: "20", Help: "Steps of the probabilities 0 to 1 of the index."},
	{Path: "scoring.efi.years", Default: "0", Check: Between(0, 1000), Example: "18", Help: "Years of the index's climate, up to the year of the start."},
	{Path: "scoring.efi.window", Default: "0", Check: Between(0, 1000), Example: "9", Help: "Consecutive calendar days of the index's climate, centred on the start's; 0 for protocols without the index."},
	{Path: "scoring.efi.least", Default: "0", Check: Between(0, 1000), Example: "5", Help: "Calendar days of the window that must be there at the ends of the year."},

	{Path: "tasks", Required: true, Example: "[{name: t850, variable: t, level: 850hPa, lead: 48h, inputs: [t]}]",
		Help: "What is predicted."},
	{Path: "tasks[].name", Required: true, Example: "t850", Help: "Name of the task; that of its configuration in the experiment."},
	{Path: "tasks[].variable", Required: true, Example: "t", Help: "Variable that is predicted."},
	{Path: "tasks[].level", Required: true, Example: "850hPa", Help: "Its level, or single."},
	{Path: "tasks[].lead", Required: true, Check: AtLeast(0), Example: "48h", Help: "Lead that is predicted."},
	{Path: "tasks[].inputs", Required: true, Example: "[z, t, q]", Help: "Variables that are input, at the level of the task."},

	{Path: "published", Example: "[{score: crps, task: z500, system: raw, members: 10, value: 78.24, mark: summary}]",
		Help: "Scores that a source gives for the test."},
	{Path: "published[].score", Required: true, Check: OneOf("crps", "eecrps"), Example: "crps", Help: "The score, in the unit of the variable (SI)."},
	{Path: "published[].task", Required: true, Example: "z500", Help: "One of the tasks."},
	{Path: "published[].system", Required: true, Example: "raw", Help: "What was scored."},
	{Path: "published[].members", Required: true, Check: Between(1, 255), Example: "10", Help: "Members that are input."},
	{Path: "published[].value", Required: true, Check: Above(0), Example: "78.24", Help: "The score."},
	{Path: "published[].tolerance", Default: "0.02", Check: Above(0), Example: "0.02",
		Help: "Relative difference that is expected of a reproduction. It is ours: the sources give none."},
	{Path: "published[].mark", Required: true, Check: OneOf("summary", "remembered"), Example: "summary",
		Help: "summary: from a summary of the paper, not its text. remembered: not verified, never a gate."},
})

//go:embed protocols/*.yaml
var builtInFiles embed.FS

// builtInDir is the folder of builtInFiles.
const builtInDir = "protocols"

// baseLine names the protocol under another one.
var baseLine = regexp.MustCompile(`(?m)^base: *([a-z0-9-]+) *$`)

// Protocols lists the protocols that are built in, sorted.
func Protocols() []string {
	entries, err := builtInFiles.ReadDir(builtInDir)
	if err != nil {
		panic("config: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// ProtocolConfig is a loaded protocol.
type ProtocolConfig struct {
	Protocol
	Name string // that is built in, or the path of the file
	*loaded
}

// LoadProtocol reads a protocol: one that is built in, by its name, or a file, by its
// path. The environment does not change it.
//
// Errors: exit 64 with all faults at once, each with its place and a remedy.
func LoadProtocol(name string) (*ProtocolConfig, error) {
	src := Sources{Files: []string{name}, texts: map[string][]byte{}}
	known := Protocols()
	for _, n := range known {
		text, err := builtInFiles.ReadFile(path.Join(builtInDir, n+".yaml"))
		if err != nil {
			return nil, err
		}
		src.texts[n] = text
	}
	unknown := func(name, at string) error {
		fix := "give " + strings.Join(known, ", ") + ", or the path of a file"
		if near := nearest.Find(name, known); near != "" {
			fix = "did you mean `" + near + "`?"
		}
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("there is no protocol %q", name), At: at, Fix: fix}
	}
	text := src.texts[name]
	if text == nil && !strings.ContainsAny(name, "./") {
		return nil, unknown(name, "the command line")
	}
	if text == nil {
		text, _ = readBounded(name) // load says what is wrong with the file
	}
	if m := baseLine.FindSubmatch(text); m != nil {
		base := string(m[1])
		if src.texts[base] == nil || base == name {
			return nil, unknown(base, name+", base")
		}
		src.Files = []string{base, name}
	}
	e, err := load(ProtocolSchema, src)
	if err != nil {
		return nil, err
	}
	p := &ProtocolConfig{Name: name, loaded: e}
	e.fill(&p.Protocol)
	if where := e.origins["published"].Where; p.Base != "" && !strings.HasPrefix(where, name+":") {
		p.Published = nil // they are of other years, members or points
	}
	return p, joinFaults(p.check())
}

// check applies the rules between keys.
func (p *ProtocolConfig) check() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, p.fault(path, what, why, fix)) }
	if p.Base != "" && len(p.Files()) != 2 {
		add("base", "base is not found", "it has no line of its own", "write `base: "+p.Base+"` without quotes")
	}
	h := p.Hindcasts
	if h.LastYear < h.FirstYear {
		add("hindcasts.last_year", "the years end before they begin", fmt.Sprintf("%d to %d", h.FirstYear, h.LastYear), "exchange the two")
	}
	for i, d := range h.Dates {
		if _, err := time.Parse("20060102", "2000"+d); err != nil || len(d) != 4 || i > 0 && d <= h.Dates[i-1] {
			add("hindcasts.dates", fmt.Sprintf("%q is no calendar day after the one before", d), "", "write month and day, such as \"0229\", ascending, each once")
		}
	}
	if !slices.IsSorted(h.Leads) || len(slices.Compact(slices.Clone(h.Leads))) < len(h.Leads) {
		add("hindcasts.leads", "the leads do not ascend", formatList(h.Leads), "sort them and give each once")
	}
	for _, l := range p.Analyses.Leads {
		if !slices.Contains(h.Leads, l) {
			add("analyses.leads", fmt.Sprintf("analyses at lead %s, which no hindcast has", l), "", "give leads among hindcasts.leads")
		}
	}
	if p.Grid.North <= p.Grid.South || p.Grid.East <= p.Grid.West {
		add("grid.north", "the grid is empty", fmt.Sprintf("%g to %g N, %g to %g E", p.Grid.North, p.Grid.South, p.Grid.West, p.Grid.East), "give the corners")
	}
	for _, f := range h.Files {
		if !strings.Contains(f.Name, "{date}") {
			add("hindcasts.files", fmt.Sprintf("name %q does not tell calendar days apart", f.Name), "", "write {date} where the date stands")
		}
	}
	for _, f := range p.Analyses.Files {
		if !strings.Contains(f.Name, "{month}") {
			add("analyses.files", fmt.Sprintf("name %q does not tell months apart", f.Name), "", "write {month} where year and month stand")
		}
		if len(f.CDS) != len(f.Variables) {
			add("analyses.files", fmt.Sprintf("%s: %d variables and %d names", f.Name, len(f.Variables), len(f.CDS)), "", "give each variable its name in the Climate Data Store")
		}
	}
	for _, t := range p.Tasks {
		holds := func(f HindcastFile) bool {
			return slices.Contains(f.Levels, t.Level) && !slices.ContainsFunc(append([]string{t.Variable}, t.Inputs...), func(v string) bool { return !slices.Contains(f.Variables, v) })
		}
		if !slices.ContainsFunc(h.Files, holds) || !slices.Contains(p.Analyses.Leads, t.Lead) {
			add("tasks", fmt.Sprintf("no file has what task %s asks for", t.Name), "", "give inputs of one file and a lead of the analyses")
		}
	}
	for _, s := range p.Published {
		if !slices.ContainsFunc(p.Tasks, func(t ProtocolTask) bool { return t.Name == s.Task }) {
			add("published", fmt.Sprintf("a score of task %q, which there is not", s.Task), "", "correct the name")
		}
	}
	return faults
}

// Subset narrows a protocol to some of its years and calendar days, a coarser grid and
// fewer members; 0 keeps what there is.
//
// Errors: exit 64 for what the protocol does not have.
func (p *ProtocolConfig) Subset(firstYear, lastYear, dates, rows, columns, members int) (*ProtocolConfig, error) {
	q := *p
	h := &q.Hindcasts
	refuse := func(what, why string) (*ProtocolConfig, error) {
		return nil, &exit.Error{Code: exit.Usage, What: what, At: "the command line", Why: why, Fix: "ask for a part of the protocol"}
	}
	if firstYear != 0 || lastYear != 0 {
		if firstYear < h.FirstYear || lastYear > h.LastYear || lastYear < firstYear {
			return refuse(fmt.Sprintf("years %d to %d are not of the protocol", firstYear, lastYear), fmt.Sprintf("it has %d to %d", h.FirstYear, h.LastYear))
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
		return refuse(fmt.Sprintf("%d members", members), fmt.Sprintf("the protocol has %d, and one has no spread", h.Members))
	}
	if members > 0 {
		h.Members = members
	}
	if rows != 0 || columns != 0 {
		if rows < 2 || columns < 2 || rows > q.Grid.Rows || columns > q.Grid.Columns {
			return refuse(fmt.Sprintf("a grid of %d×%d points", rows, columns), fmt.Sprintf("the protocol's has %d×%d", q.Grid.Rows, q.Grid.Columns))
		}
		g := &q.Grid
		if step := (g.East - g.West) / float64(g.Columns-1); step*float64(g.Columns) > 360-step/2 { // once around
			g.East = g.West + 360 - 360/float64(columns)
		}
		g.Rows, g.Columns = rows, columns
	}
	return &q, nil
}

// Inits lists the starts of a calendar day, or of all, ascending. A day that a year does
// not have is left out.
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

// Path is the name of the file of a calendar day.
func (f HindcastFile) Path(reference int, date string) string {
	return strings.ReplaceAll(f.Name, "{date}", fmt.Sprintf("%04d%s", reference, date))
}

// Path is the name of the file of a month.
func (f ReanalysisFile) Path(month time.Time) string {
	return strings.ReplaceAll(f.Name, "{month}", month.Format("200601"))
}

// Months lists the months of the analyses with the valid times in each, ascending.
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
