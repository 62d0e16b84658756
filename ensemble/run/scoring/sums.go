package scoring

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/columnfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	couplingtest "github.com/ensemble-weather/ensemble/postproc/coupling"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// Has reports whether there are sums of a target.
func (s *SavedSums) Has(t score.Target) bool {
	return slices.ContainsFunc(s.Targets, func(x TargetSums) bool {
		var h SumsHeader
		return json.Unmarshal(x.Header, &h) == nil && score.Target(h.Target) == t
	})
}

// SumsHeader is what the sums of one target must have in common to be joined: everything that determines the
// sums except dates.
type SumsHeader struct {
	Target    headerTarget          `json:"target"`
	Grid      *ensemble.Grid        `json:"grid"`
	DDOF      int                   `json:"ddof"`
	Shape     headerShape           `json:"shape"`
	Selection headerSelection       `json:"selection"`
	Methods   []string              `json:"methods"`  // baselines that are scored
	Affine    baseline.AffineSpread `json:"affine"`   // spread correction of the baseline "affine"
	Split     int                   `json:"split"`    // members of the ensemble that the reduction in CRPS refers to; 0: not split
	Quantile  int                   `json:"quantile"` // steps of the climate's quantiles; 0: no climate
	// Family is that of the network's distribution; empty for mean and spread.
	Family     string `json:"family"`
	Parameters int    `json:"parameters"` // number of the family's parameters
	// Published are the probabilities and quantiles among the products.
	Published Published `json:"published"`
}

// Parts of a SumsHeader in JSON: score.Target, Shape and Selection.
type (
	headerTarget struct {
		Variable string         `json:"variable"`
		Level    ensemble.Level `json:"level"`
		Lead     ensemble.Lead  `json:"lead_ns"`
		Unit     string         `json:"unit"`
	}
	headerShape struct {
		Mean            bool `json:"mean"`
		Spread          bool `json:"spread"`
		Obs             bool `json:"obs"`
		Used            int  `json:"used"`
		Full            int  `json:"full"`
		Calibrated      int  `json:"calibrated"`
		Earlier         int  `json:"earlier"`
		PublishedFields int  `json:"published"`
	}
	headerSelection struct {
		Scores  []string `json:"scores"`
		Events  []string `json:"events"`
		Regions []string `json:"regions"`
		Seasons bool     `json:"seasons"`
		Weights string   `json:"weights"`
		Radius  float64  `json:"radius"`
	}
)

// SavedSums is the content of a file of sums.
type SavedSums struct {
	Targets []TargetSums
	// Trained are the coupling tests of the training.
	Trained []score.Coupling
}

// TargetSums are the sums of one target. Header is a SumsHeader in JSON.
type TargetSums struct {
	Header []byte
	Dates  []DateSums // ascending
}

// SumsSchema starts a file of sums.
const SumsSchema = "ensemble.sums/4"

// Header of a file of sums (docs/formats). The numbers follow it in the order of the header, as float64,
// except errors of members, which are float32.
type (
	sumsFile struct {
		Trained []score.Coupling `json:"trained"` // numbers: value, ci_low, ci_high and expected of each
		Targets []targetInFile   `json:"targets"`
	}
	targetInFile struct {
		Head  json.RawMessage `json:"head"` // SumsHeader
		Dates []dateInFile    `json:"dates"`
	}
	dateInFile struct {
		Distribution *scoresInFile    `json:"distribution,omitempty"`
		Spread       *scoresInFile    `json:"spread,omitempty"`
		Reduction    *reductionInFile `json:"reduction,omitempty"`
		Coupling     []couplingInFile `json:"coupling,omitempty"`
	}
	scoresInFile struct {
		Init    time.Time    `json:"init"`
		Members []int        `json:"members"` // members of each system
		Regions []cellInFile `json:"regions"`
	}
	cellInFile struct {
		Points  int   `json:"points"`
		Missing int   `json:"missing"`
		Absent  []int `json:"absent"` // missing values of each system
		Sums    int   `json:"sums"`   // numbers: weight, and this number of sums
	}
	reductionInFile struct {
		Init   time.Time `json:"init"`
		Points int       `json:"points"`
		Sums   []int     `json:"sums"` // numbers: CRPS, and this number of sums of each area
	}
	couplingInFile struct {
		System  string `json:"system"`
		Leaks   int    `json:"leaks"`
		Members int    `json:"members"`
		Errors  int    `json:"errors"` // numbers: this number of float32, the spread, three of cross pairs
		Sizes   []int  `json:"sizes"`  // members of each; numbers: three sums of each
	}
)

// Header describes the sums of a scoring.
func (s *Scoring) Header() SumsHeader {
	h := SumsHeader{Target: headerTarget(s.Target), Grid: s.Grid, DDOF: s.DDOF, Shape: headerShape(s.Shape), Selection: headerSelection(s.Selection), Published: s.Published}
	if s.Baselines != nil {
		h.Affine = s.Baselines.Affine
		for _, b := range s.Baselines.Fits {
			h.Methods = append(h.Methods, b.Method.ID)
		}
	}
	if s.canSplit() {
		h.Split = s.Baselines.Reduction.Members
	}
	if s.Climate != nil {
		h.Quantile = s.Climate.Steps
	}
	if s.Family != nil {
		h.Family, h.Parameters = s.Family.ID, len(s.Family.Parameters)
	}
	return h
}

// begin starts a scoring that accepts sums with this header.
func (h *SumsHeader) begin(b significance.Bootstrap, inits []ensemble.Init) (*Scoring, error) {
	if h.Grid == nil || h.Grid.NX*h.Grid.NY == 0 {
		return nil, errors.New("the header has no grid")
	}
	j := TargetOptions{Target: score.Target(h.Target), Grid: h.Grid, DDOF: h.DDOF, Selection: Selection(h.Selection), Bootstrap: b, Baselines: &task.Baselines{Affine: h.Affine},
		Inits: inits, Source: score.FromProducts, KeepSums: true, Published: h.Published}
	if h.Family != "" {
		if j.Family = dist.FamilyByID(h.Family, h.Parameters); j.Family == nil {
			return nil, fmt.Errorf("unknown family %q", h.Family)
		}
	}
	for _, id := range h.Methods {
		at := slices.IndexFunc(baseline.Methods, func(m *baseline.Method) bool { return m.ID == id })
		if at < 0 {
			return nil, fmt.Errorf("unknown baseline %q", id)
		}
		j.Baselines.Fits = append(j.Baselines.Fits, task.Baseline{Method: baseline.Methods[at]})
	}
	if h.Split > 0 {
		j.Baselines.Reduction = &skill.Corrections{Members: h.Split}
	}
	if h.Quantile > 0 {
		j.Climate = &score.Climate{Steps: h.Quantile}
	}
	return j.Begin(Shape(h.Shape))
}

// SaveSums writes the contributions of all dates to the scores of some targets, which were kept with
// KeepSums.
//
// Errors: exit 73 or 74.
func SaveSums(path string, all []*Scoring, trained []score.Coupling) error {
	out := SavedSums{Trained: trained}
	for _, s := range all {
		head, err := json.Marshal(s.Header())
		if err != nil {
			return fmt.Errorf("sums: %w", err)
		}
		out.Targets = append(out.Targets, TargetSums{head, s.Saved})
	}
	return out.Save(path)
}

// Save writes a file of sums.
//
// Errors: exit 73 or 74.
func (s *SavedSums) Save(path string) error {
	text, err := s.encode()
	if err != nil {
		return fmt.Errorf("sums: %w", err)
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, text))
}

// encode returns the bytes of a file of sums.
func (s *SavedSums) encode() ([]byte, error) {
	f := sumsFile{Trained: s.Trained, Targets: make([]targetInFile, len(s.Targets))}
	var columns []byte
	for _, c := range s.Trained {
		columns = columnfile.Append(columns, c.Value, c.CILow, c.CIHigh, c.Expected)
	}
	for i, t := range s.Targets {
		f.Targets[i] = targetInFile{t.Header, make([]dateInFile, len(t.Dates))}
		for k, d := range t.Dates {
			f.Targets[i].Dates[k], columns = d.encode(columns)
		}
	}
	return columnfile.Encode(SumsSchema, f, columns)
}

// encode returns the header of a date and appends its numbers to columns.
func (d DateSums) encode(columns []byte) (dateInFile, []byte) {
	scores := func(d *score.Date) *scoresInFile {
		if d == nil {
			return nil
		}
		f := &scoresInFile{d.Init.Time, d.Members, make([]cellInFile, len(d.Regions))}
		for i, c := range d.Regions {
			f.Regions[i] = cellInFile{c.Points, c.Missing, c.MissingMembers, len(c.Sums)}
			columns = columnfile.Append(columnfile.Append(columns, c.Weight), c.Sums...)
		}
		return f
	}
	f := dateInFile{Distribution: scores(d.Distribution), Spread: scores(d.Spread)}
	if g := d.Reduction; g != nil {
		f.Reduction = &reductionInFile{g.Init.Time, g.Points, make([]int, len(g.Sums))}
		columns = columnfile.Append(columns, g.CRPS)
		for i, sums := range g.Sums {
			f.Reduction.Sums[i], columns = len(sums), columnfile.Append(columns, sums...)
		}
	}
	for _, c := range d.Coupling {
		x := couplingInFile{c.System, c.Leaks, c.Members, len(c.Error), make([]int, len(c.Sizes))}
		columns = columnfile.Append(columnfile.Append(columnfile.Append(columns, c.Error...), c.Spread), c.Cross[:]...)
		for i, size := range c.Sizes {
			x.Sizes[i], columns = size.Members, columnfile.Append(columns, size.Sums[:]...)
		}
		f.Coupling = append(f.Coupling, x)
	}
	return f, columns
}

// decode takes the numbers of a date from the columns.
func (f *dateInFile) decode(c *columnfile.Columns) (d DateSums) {
	scores := func(f *scoresInFile) *score.Date {
		if f == nil {
			return nil
		}
		d := &score.Date{Init: ensemble.InitAt(f.Init), Members: f.Members}
		for _, x := range f.Regions {
			d.Regions = append(d.Regions, score.RegionSums{Weight: columnfile.NextValue[float64](c), Points: x.Points, Missing: x.Missing, MissingMembers: x.Absent, Sums: columnfile.Next[float64](c, x.Sums)})
		}
		return d
	}
	d = DateSums{Distribution: scores(f.Distribution), Spread: scores(f.Spread)}
	if g := f.Reduction; g != nil {
		d.Reduction = &datedReduction{Init: ensemble.InitAt(g.Init), CRPS: columnfile.NextValue[float64](c), Points: g.Points}
		for _, n := range g.Sums {
			d.Reduction.Sums = append(d.Reduction.Sums, columnfile.Next[float64](c, n))
		}
	}
	for _, f := range f.Coupling {
		x := couplingtest.Date{Members: f.Members, Error: columnfile.Next[float32](c, f.Errors), Spread: columnfile.NextValue[float64](c), Cross: columnfile.NextValue[[3]float64](c)}
		for _, members := range f.Sizes {
			x.Sizes = append(x.Sizes, couplingtest.SizeSums{Members: members, Sums: columnfile.NextValue[[3]float64](c)})
		}
		d.Coupling = append(d.Coupling, couplingDate{f.System, f.Leaks, x})
	}
	return d
}

// Init is the initialisation that the sums belong to.
func (d DateSums) Init() ensemble.Init {
	switch {
	case d.Distribution != nil:
		return d.Distribution.Init
	case d.Spread != nil:
		return d.Spread.Init
	case d.Reduction != nil:
		return d.Reduction.Init
	}
	return ensemble.Init{}
}

// JoinFiles joins files of sums. trained are the coupling tests of the training, from the first file.
//
// Errors: exit 65 for files that are not sums, or that do not belong together; 66 for missing files.
func JoinFiles(files []string, b significance.Bootstrap) (all []*Scoring, trained []score.Coupling, warnings []string, err error) {
	var found []*collectedSums
	for i, path := range files {
		saved, err := LoadSums(path)
		if err != nil {
			return nil, nil, nil, err
		}
		if i == 0 {
			trained = saved.Trained
		}
		for _, t := range saved.Targets {
			at := slices.IndexFunc(found, func(f *collectedSums) bool { return bytes.Equal(f.head, t.Header) })
			if at < 0 {
				f := &collectedSums{head: t.Header, path: path}
				if err := json.Unmarshal(t.Header, &f.SumsHeader); err != nil {
					return nil, nil, nil, DamagedSumsError(path, err)
				}
				for _, other := range found {
					if other.Target == f.Target {
						return nil, nil, nil, &exit.Error{Code: exit.BadData, What: "the sums do not belong together", At: path,
							Why: fmt.Sprintf("%s at %s, lead %s: %s than in %s", f.Target.Variable, f.Target.Level, f.Target.Lead, differingParts(other.head, f.head), other.path),
							Fix: "join verifications with the same grid, members, baselines, scores, regions and weights"}
					}
				}
				at, found = len(found), append(found, f)
			}
			for _, d := range t.Dates {
				found[at].dates = append(found[at].dates, collectedDate{d, path})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *collectedSums) int { return CompareTargets(score.Target(a.Target), score.Target(b.Target)) })
	all = make([]*Scoring, len(found))
	for i, f := range found {
		if all[i], err = f.join(b); err != nil {
			return nil, nil, nil, err
		}
	}
	return all, trained, unequalDates(found), nil
}

// collectedSums are the sums of one target in all files.
type collectedSums struct {
	SumsHeader
	head  []byte
	path  string // first file
	dates []collectedDate
}

// collectedDate is the contribution of one date, and the file that contains it.
type collectedDate struct {
	DateSums
	path string
}

// join returns a scoring of all dates, in order.
func (f *collectedSums) join(b significance.Bootstrap) (*Scoring, error) {
	slices.SortStableFunc(f.dates, func(a, b collectedDate) int { return a.Init().Compare(b.Init().Time) })
	inits := make([]ensemble.Init, len(f.dates))
	for i, d := range f.dates {
		inits[i] = d.Init()
	}
	s, err := f.begin(b, inits)
	if err == nil && len(inits) == 0 {
		err = fmt.Errorf("%s has no initialisation", f.Target.Variable)
	}
	if err != nil {
		return nil, DamagedSumsError(f.path, err)
	}
	for _, d := range f.dates {
		if err := s.Join(d.DateSums); err != nil {
			return nil, &exit.Error{Code: exit.BadData, What: "the sums cannot be joined", At: d.path, Why: strings.TrimPrefix(err.Error(), "score: "), Fix: "give each initialisation in only one file", Err: err}
		}
	}
	return s, nil
}

// DamagedSumsError returns the error for a file that does not contain valid sums.
func DamagedSumsError(path string, err error) error {
	return &exit.Error{Code: exit.BadData, What: "not a file of sums of scores", At: path, Why: err.Error(), Fix: "give files of `ensemble verify --sums` of this version of the program; --rolling writes its files again after they were removed", Err: err}
}

// CompareTargets orders targets in results.
func CompareTargets(a, b score.Target) int {
	return cmp.Or(strings.Compare(a.Variable, b.Variable), cmp.Compare(b.Level.Value, a.Level.Value), cmp.Compare(b.Level.End, a.Level.End), cmp.Compare(a.Lead, b.Lead))
}

// unequalDates warns about targets with fewer initialisations than others.
func unequalDates(all []*collectedSums) (warnings []string) {
	most := 0
	for _, f := range all {
		most = max(most, len(f.dates))
	}
	for _, f := range all {
		if n := len(f.dates); n < most {
			warnings = append(warnings, fmt.Sprintf("%s at %s, lead %s, has %d initialisations, others have %d", f.Target.Variable, f.Target.Level, f.Target.Lead, n, most))
		}
	}
	return warnings
}

// differingParts names the first differences of two headers.
func differingParts(a, b []byte) string {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return "they cannot be compared"
	}
	var names []string
	for name := range x {
		if !bytes.Equal(x[name], y[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return "other " + strings.Join(names, ", ")
}

// LoadSums reads a file that SaveSums wrote.
//
// Errors: exit 65 and 66.
func LoadSums(path string) (*SavedSums, error) {
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	saved, err := parseSums(text)
	if err != nil {
		return nil, DamagedSumsError(path, err)
	}
	return saved, nil
}

// parseSums parses a file of sums.
func parseSums(text []byte) (*SavedSums, error) {
	var f sumsFile
	c, err := columnfile.Decode(text, SumsSchema, &f)
	if err != nil {
		return nil, err
	}
	saved := &SavedSums{Trained: f.Trained}
	for i := range f.Trained {
		t := &f.Trained[i]
		t.Value, t.CILow, t.CIHigh, t.Expected = columnfile.NextValue[score.Number](c), columnfile.NextValue[score.Number](c), columnfile.NextValue[score.Number](c), columnfile.NextValue[score.Number](c)
	}
	for _, t := range f.Targets {
		of := TargetSums{Header: t.Head}
		for i := range t.Dates {
			of.Dates = append(of.Dates, t.Dates[i].decode(c))
		}
		saved.Targets = append(saved.Targets, of)
	}
	return saved, c.CheckEnd()
}
