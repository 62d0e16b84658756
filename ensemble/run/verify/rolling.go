package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/dirglob"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// RollingOptions are the inputs of [Rolling].
type RollingOptions struct {
	Options // Out and Sums are not used
	// Dir keeps the partial sums of each initialisation, the scores of the newest ones, alarms and their history.
	Dir    string
	Window int   // newest initialisations that are scored together; 0: 30
	Bands  Bands // the zero value is DefaultBands
	// Against is the folder of the rolling verification of the model in use. A verdict compares both on common
	// initialisations. Empty: no verdict.
	Against string
}

// Bands are the ranges of scores without alarm: a range for the spread-skill ratio, the largest absolute
// value of the others.
type Bands struct {
	SpreadSkill      [2]float64 // lowest and highest spread-skill ratio
	Bias             float64    // in units of the RMSE of the mean
	Slope, Convexity float64    // slope and convexity of the PIT or rank histogram, see score.Calibration
	Skill            float64    // lowest CRPSS against raw members and EMOS
}

// DefaultBands allow for seasonal variation of a calibrated network.
var DefaultBands = Bands{SpreadSkill: [2]float64{0.8, 1.25}, Bias: 0.25, Slope: 0.1, Convexity: 0.3}

// Set changes one band: NAME=SIZE or spread_skill=LOW:HIGH.
//
// Errors: for other names and invalid numbers.
func (b *Bands) Set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	low, high, both := strings.Cut(value, ":")
	x, err := strconv.ParseFloat(low, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", low)
	}
	if to, ok := map[string]*float64{"bias": &b.Bias, "slope": &b.Slope, "convexity": &b.Convexity, "skill": &b.Skill}[name]; ok && !both {
		*to = x
		return nil
	}
	y, err := strconv.ParseFloat(high, 64)
	if name != "spread_skill" || err != nil || !(x < y) {
		return errors.New("valid are spread_skill=LOW:HIGH, and bias, slope, convexity and skill with one number")
	}
	b.SpreadSkill = [2]float64{x, y}
	return nil
}

// defaultWindow is the default number of initialisations that are scored together.
const defaultWindow = 30

// RollingResult is the outcome of [Rolling].
type RollingResult struct {
	*promote.Alarms
	New      int                `json:"new_inits"`            // initialisations scored by this call, completely or at further leads
	Waiting  int                `json:"waiting_for_analyses"` // initialisations whose analyses are missing, some or all
	Fallback int                `json:"fallback"`             // products of the fallback forecast, which are not scored
	Verdict  *promote.Verdict   `json:"verdict,omitempty"`    // nil without RollingOptions.Against
	Scores   *score.Result      `json:"-"`                    // scores of the window
	Outputs  []string           `json:"-"`
	Warnings []string           `json:"-"`
	Checked  []promote.Alarm    // all scores with a band, and their values
	window   []*scoring.Scoring // scoring of each target
}

// Files of a rolling verification. Partial sums are in a folder named after the model.
const (
	AlarmsFile  = "alarms.json"
	HistoryFile = "history.jsonl"
	VerdictFile = "verdict.json"
	ScoresDir   = "scores"
	SumsEnding  = ".sums"
)

// errNothingNew reports that no new initialisation can be scored.
var errNothingNew = errors.New("no initialisation to score")

// Rolling scores the products of the newest model whose analyses have arrived and that were not scored
// before, keeps their partial sums, and checks the newest initialisations for alarms. It may be called at any
// time, and again after it was killed. Products of the fallback forecast are skipped.
//
// Reads: products with their manifests, analyses, raw members; the partial sums of earlier calls.
// Writes: in Dir a folder of sums per model, scores/, alarms.json, history.jsonl and, with Against,
// verdict.json.
// Errors: as [Run], except that missing analyses are not an error; exit 66 without published products and if
// Against has no common initialisation; 73 while another process works in Dir.
func Rolling(ctx context.Context, o RollingOptions) (*RollingResult, error) {
	if err := o.Selection.Check(); err != nil {
		return nil, err
	}
	o.Window = cmp.Or(o.Window, defaultWindow)
	if o.Bands == (Bands{}) {
		o.Bands = DefaultBands
	}
	if err := atomicfile.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, exit.CreateError(o.Dir, err)
	}
	lease, err := rundir.TakeLease(o.Dir)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	if o.RunDir, _, err = promote.ResolveRunDir(o.RunDir); err != nil {
		return nil, err
	}
	sweep := lease.Guard(func() error {
		return errors.Join(atomicfile.RemoveTemporary(o.Dir, AlarmsFile, HistoryFile, VerdictFile), atomicfile.RemoveTemporary(filepath.Join(o.Dir, ScoresDir)))
	})
	issued, err := issuedProducts(o.Forecast)
	if err != nil {
		return nil, err
	}
	r := &RollingResult{Alarms: &promote.Alarms{Schema: promote.AlarmsSchema, Model: issued.model, Alarms: []promote.Alarm{}}, Fallback: issued.fallbacks}
	r.Warnings = issued.warnings
	before, err := promote.ReadAlarms(filepath.Join(o.Dir, AlarmsFile))
	if err != nil {
		return nil, err
	}
	sums := sumsDir(o.Dir, issued.model)
	sweep = errors.Join(sweep, lease.Guard(func() error { return errors.Join(atomicfile.MkdirAll(sums, 0o777), atomicfile.RemoveTemporary(sums)) }))
	if sweep != nil {
		return nil, exit.CreateError(sums, sweep)
	}
	if len(issued.files) > 0 {
		o.Forecast = issued.files
		if err := o.scoreNewInits(ctx, sums, lease.Guard, r); err != nil {
			return nil, err
		}
	}
	window, otherwise, err := newestSums(sums, o.Window)
	if err != nil {
		return nil, err
	}
	if otherwise > 0 {
		r.Warnings = append(r.Warnings, humanise.Count(otherwise, "initialisation")+" not in the window: scored with other members or baselines than the newest")
	}
	r.Window = humanise.Count(o.Window, "initialisation")
	if r.Inits = len(window); r.Inits > 0 {
		if r.At, err = time.Parse(initLayout, strings.TrimSuffix(filepath.Base(window[len(window)-1]), SumsEnding)); err != nil {
			return nil, scoring.DamagedSumsError(window[len(window)-1], err)
		}
		all, _, _, err := scoring.JoinFiles(window, o.Bootstrap)
		if err != nil {
			return nil, err
		}
		var joined Result
		if err := publishScores(filepath.Join(o.Dir, ScoresDir), all, nil, o.Bootstrap, &joined); err != nil {
			return nil, err
		}
		r.window, r.Scores, r.Outputs = all, joined.Scores, joined.Outputs
		r.raiseAlarms(o.Bands, before)
	}
	if err := lease.Guard(func() error { return r.save(o.Dir) }); err != nil {
		return nil, err
	}
	if o.Against == "" {
		return r, nil
	}
	if r.Verdict, err = newVerdict(o, r); err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, VerdictFile)
	r.Outputs = append(r.Outputs, path)
	return r, lease.Guard(func() error { return jsonfile.Write(path, r.Verdict) })
}

// initLayout is the time layout of file names of partial sums.
const initLayout = "2006010215"

// sumsDir is the folder for the partial sums of a model.
func sumsDir(dir, modelSum string) string {
	sum := strings.TrimPrefix(modelSum, "sha256:")
	return filepath.Join(dir, "sums-"+sum[:min(12, len(sum))])
}

// productFiles are the products of the newest model.
type productFiles struct {
	model     string // checksum
	files     []string
	fallbacks int // products of the fallback forecast
	warnings  []string
}

// issuedProducts selects products of the newest model by the manifests beside them.
//
// Errors: exit 66 if no published product.
func issuedProducts(files []string) (*productFiles, error) {
	byDir := map[string][]string{}
	manifests := map[string]*product.Manifest{}
	r := &productFiles{}
	for _, f := range files {
		dir := filepath.Dir(f)
		byDir[dir] = append(byDir[dir], f)
		if _, seen := manifests[dir]; seen {
			continue
		}
		m, err := product.ReadManifest(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		manifests[dir] = m // nil: a copy without a manifest
	}
	var dirs []string
	unknown := 0
	for dir, m := range manifests {
		if m == nil {
			unknown++
			continue
		}
		dirs = append(dirs, dir)
	}
	if unknown > 0 {
		r.warnings = append(r.warnings, humanise.Count(unknown, "folder")+" without a manifest: not published, and not scored")
	}
	if len(dirs) == 0 {
		return nil, &exit.Error{Code: exit.NotYet, What: "no published product", At: input.FileList(files), Why: "published products have a manifest.json beside them", Fix: "give files as `ensemble predict` published them: products/*/*.nc"}
	}
	slices.SortFunc(dirs, func(a, b string) int {
		return cmp.Or(strings.Compare(manifests[a].Init, manifests[b].Init), strings.Compare(a, b))
	})
	r.model = manifests[dirs[len(dirs)-1]].ModelChecksum
	others := 0
	for _, dir := range dirs {
		switch m := manifests[dir]; {
		case m.Fallback != "":
			r.fallbacks++
		case m.ModelChecksum != r.model:
			others++
		default:
			r.files = append(r.files, byDir[dir]...)
		}
	}
	if others > 0 {
		r.warnings = append(r.warnings, humanise.Count(others, "product")+" of older models: not scored")
	}
	return r, nil
}

// scoreNewInits scores initialisations that were not scored before, and writes their partial sums.
func (o RollingOptions) scoreNewInits(ctx context.Context, sums string, guard func(func() error) error, r *RollingResult) error {
	done := map[ensemble.Init]*scoring.SavedSums{}
	before := func(init ensemble.Init) (*scoring.SavedSums, error) {
		if s, seen := done[init]; seen {
			return s, nil
		}
		s, err := scoring.LoadSums(filepath.Join(sums, init.UTC().Format(initLayout)+SumsEnding))
		if errors.Is(err, fs.ErrNotExist) || exit.CodeOf(err) == exit.NotYet {
			s, err = &scoring.SavedSums{}, nil
		}
		done[init] = s
		return s, err
	}
	v := &Verification{Options: o.Options}
	defer v.Close()
	var bad error
	v.Options.skip = func(t score.Target, init ensemble.Init) bool {
		s, err := before(init)
		bad = errors.Join(bad, err)
		return err != nil || s.Has(t)
	}
	err := team.RunTeams("", config.DefaultStallTimeout, func(w team.Teams) error { return v.scoreAll(ctx, w) })
	if r.Warnings = append(r.Warnings, v.Warnings...); bad != nil {
		return bad
	}
	r.Waiting = v.withoutAnalysis
	if errors.Is(err, errNothingNew) {
		return nil
	} else if err != nil {
		return err
	}
	for _, init := range v.inits {
		s := done[init]
		for _, t := range v.Targets {
			at := slices.IndexFunc(t.scoring.Saved, func(d scoring.DateSums) bool { return d.Init() == init })
			if at < 0 {
				continue
			}
			head, err := json.Marshal(t.scoring.Header())
			if err != nil {
				return err
			}
			s.Targets = append(s.Targets, scoring.TargetSums{Header: head, Dates: t.scoring.Saved[at : at+1]})
		}
		if err := guard(func() error { return s.Save(filepath.Join(sums, init.UTC().Format(initLayout)+SumsEnding)) }); err != nil {
			return err
		}
		r.New++
	}
	return nil
}

// dropScored drops products that were scored before, and those without an analysis.
//
// Errors: those of input.AnalysisTimes.
func (v *Verification) dropScored() error {
	waiting, left := map[ensemble.Init]bool{}, map[ensemble.Init]bool{}
	for _, t := range v.Targets {
		t.earlier = nil // they may exist for some initialisations only
		present, err := input.AnalysisTimes(v.analyses, t.analysisRequest())
		if err != nil {
			return err
		}
		of := t.target()
		t.Inits = slices.DeleteFunc(t.Inits, func(init ensemble.Init) bool {
			skip := v.Options.skip(of, init)
			late := !skip && !present[init.Valid(t.Key.Lead)]
			waiting[init] = waiting[init] || late
			if skip || late {
				delete(t.products, init)
				return true
			}
			left[init] = true
			return false
		})
	}
	for _, late := range waiting {
		if late {
			v.withoutAnalysis++
		}
	}
	v.Targets = slices.DeleteFunc(v.Targets, func(t *VerifiedTarget) bool { return len(t.Inits) == 0 })
	v.inits = slices.DeleteFunc(v.inits, func(init ensemble.Init) bool { return !left[init] })
	return nil
}

// newestSums lists the partial sums of the newest initialisations, ascending. Only those with the settings of
// the newest one are used; otherwise counts newer ones than the oldest used that have other members or
// baselines.
func newestSums(dir string, most int) (window []string, otherwise int, err error) {
	names, err := dirglob.In(dir, "*"+SumsEnding)
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(names)
	as := map[score.Target][]byte{}
	for _, name := range slices.Backward(names) {
		if len(window) == most {
			break
		}
		s, err := scoring.LoadSums(name)
		if err != nil {
			return nil, 0, err
		}
		heads := map[score.Target][]byte{}
		same := true
		for _, t := range s.Targets {
			var h scoring.SumsHeader
			if err := json.Unmarshal(t.Header, &h); err != nil {
				return nil, 0, scoring.DamagedSumsError(name, err)
			}
			target := score.Target(h.Target)
			heads[target] = t.Header
			same = same && (as[target] == nil || bytes.Equal(as[target], t.Header))
		}
		if !same {
			otherwise++
			continue
		}
		maps.Copy(as, heads)
		window = append(window, name)
	}
	slices.Reverse(window)
	return window, otherwise, nil
}

// raiseAlarms raises an alarm for each score outside its band: spread-skill ratio, bias/RMSE, slope and convexity
// of the PIT or rank histogram, and CRPSS against raw members and EMOS. A continuing alarm keeps its Since.
func (r *RollingResult) raiseAlarms(b Bands, before *promote.Alarms) {
	for _, v := range r.Scores.Scores {
		if v.System != scoring.SystemNetwork && v.System != scoring.SystemMembers || !score.IsOverall(v.Region, v.Season) {
			continue
		}
		a := promote.Alarm{Variable: v.Variable, Level: v.Level, Lead: v.Lead, Value: v.Value, CILow: v.CILow, CIHigh: v.CIHigh}
		switch v.ID {
		case score.SpreadSkill.ID:
			a.Kind, a.BandLow, a.BandHigh, a.Text = "spread_skill", score.Number(b.SpreadSkill[0]), score.Number(b.SpreadSkill[1]), "spread-skill ratio"
			r.addScore(a)
		case score.Bias.ID:
			e := r.Scores.Find(score.RMSE.ID, v.System, v.Variable, v.Level, v.Lead)
			if e == nil {
				continue
			}
			a.Value, a.CILow, a.CIHigh = a.Value/e.Value, a.CILow/e.Value, a.CIHigh/e.Value
			a.Kind, a.BandLow, a.BandHigh, a.Text = "bias", score.Number(-b.Bias), score.Number(b.Bias), "bias in units of the RMSE"
			r.addScore(a)
		}
	}
	for _, c := range r.Scores.Calibration {
		if c.System != scoring.SystemNetwork && c.System != scoring.SystemMembers || !score.IsOverall(c.Region, c.Season) {
			continue
		}
		a := promote.Alarm{Kind: "pit", Variable: c.Variable, Level: c.Level, Lead: c.Lead}
		a.Value, a.CILow, a.CIHigh, a.BandLow, a.BandHigh, a.Text = c.Slope, c.SlopeLow, c.SlopeHigh, score.Number(-b.Slope), score.Number(b.Slope), "slope of the "+c.Histogram+" histogram"
		r.addScore(a)
		a.Value, a.CILow, a.CIHigh, a.BandLow, a.BandHigh, a.Text = c.Convexity, c.ConvexityLow, c.ConvexityHigh, score.Number(-b.Convexity), score.Number(b.Convexity), "convexity of the "+c.Histogram+" histogram"
		r.addScore(a)
	}
	for _, c := range r.Scores.Comparisons {
		if c.System == scoring.SystemNetwork && score.IsDistributionCRPS(c.ID) && score.IsOverall(c.Region, c.Season) && (strings.HasPrefix(c.Reference, "emos") || strings.HasPrefix(c.Reference, "raw")) {
			r.addScore(promote.Alarm{Kind: "skill", Variable: c.Variable, Level: c.Level, Lead: c.Lead, Value: c.SkillScore, CILow: c.CILow, CIHigh: c.CIHigh,
				BandLow: score.Number(b.Skill), BandHigh: score.Number(math.Inf(1)), Text: "CRPSS against " + c.Reference})
		}
	}
	since := r.At.Format(time.RFC3339)
	for i := range r.Alarms.Alarms {
		a := &r.Alarms.Alarms[i]
		a.Since = since
		if before == nil || before.Model != r.Model {
			continue
		}
		for _, old := range before.Alarms {
			if old.Kind == a.Kind && old.Variable == a.Variable && old.Level == a.Level && old.Lead == a.Lead {
				a.Since = old.Since
			}
		}
	}
	slices.SortStableFunc(r.Alarms.Alarms, func(a, b promote.Alarm) int { return strings.Compare(a.Since, b.Since) })
}

// addScore adds a score, as an alarm if its confidence interval lies outside its band. Without an interval it
// raises none.
func (r *RollingResult) addScore(a promote.Alarm) {
	finite := func(x score.Number) bool { return x-x == 0 }
	if !finite(a.Value) || !finite(a.CILow) || !finite(a.CIHigh) {
		return
	}
	r.Checked = append(r.Checked, a)
	if a.CIHigh >= a.BandLow && a.CILow <= a.BandHigh {
		return
	}
	band := fmt.Sprintf("outside %.3g to %.3g", a.BandLow, a.BandHigh)
	if !finite(a.BandHigh) {
		band = fmt.Sprintf("below %.3g", a.BandLow)
	}
	a.Text = fmt.Sprintf("%s of %s at %s, %s: %.3g [%.3g, %.3g], %s", a.Text, a.Variable, a.Level, a.Lead, a.Value, a.CILow, a.CIHigh, band)
	r.Alarms.Alarms = append(r.Alarms.Alarms, a)
}

// save writes the alarms, and appends to the history if there is something new or the last call was killed
// before it did.
func (r *RollingResult) save(dir string) error {
	path := filepath.Join(dir, AlarmsFile)
	r.Outputs = append(r.Outputs, path)
	name := filepath.Join(dir, HistoryFile)
	old, err := filesystem.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.ReadError(name, err)
	}
	if r.New > 0 || len(r.Checked) > 0 && !r.endsHistory(old) {
		var lines bytes.Buffer
		for _, a := range r.Checked {
			line, err := json.Marshal(HistoryLine{r.At.Format(time.RFC3339), r.Model, r.Inits, a.Kind, a.Text, a.Variable, a.Level, a.Lead, a.Value, a.CILow, a.CIHigh, a.CIHigh < a.BandLow || a.CILow > a.BandHigh})
			if err != nil {
				return err
			}
			lines.Write(append(line, '\n'))
		}
		if err := exit.CreateError(name, atomicfile.WriteFile(name, append(old, lines.Bytes()...))); err != nil {
			return err
		}
		r.Outputs = append(r.Outputs, name)
	}
	return jsonfile.Write(path, r.Alarms) // last, as predictions read it
}

// endsHistory reports whether a history ends with the newest initialisation of the window.
func (r *RollingResult) endsHistory(history []byte) bool {
	lines := bytes.Split(bytes.TrimSpace(history), []byte{'\n'})
	var h HistoryLine
	return json.Unmarshal(lines[len(lines)-1], &h) == nil && h.At == r.At.Format(time.RFC3339) && h.Model == r.Model
}

// HistoryLine is one score of one window, a line of history.jsonl.
type HistoryLine struct {
	At       string       `json:"at"` // newest initialisation of the window
	Model    string       `json:"model_checksum"`
	Inits    int          `json:"inits"` // in the window
	Kind     string       `json:"kind"`  // as Alarm.Kind
	Score    string       `json:"score"`
	Variable string       `json:"variable"`
	Level    string       `json:"level"`
	Lead     string       `json:"lead"`
	Value    score.Number `json:"value"`
	CILow    score.Number `json:"ci_low"`
	CIHigh   score.Number `json:"ci_high"`
	Alarm    bool         `json:"alarm"` // outside its band
}

// Sections summarises state and alarms in a few lines.
func (r *RollingResult) Sections() answer.Sections {
	now := fmt.Sprintf("%s scored now, %d in the window of %s; %d wait for analyses", humanise.Count(r.New, "initialisation"), r.Inits, r.Window, r.Waiting)
	if r.Fallback > 0 {
		now += fmt.Sprintf("; %s of the fallback forecast not scored", humanise.Count(r.Fallback, "product"))
	}
	lines := []string{now}
	for _, a := range r.Alarms.Alarms {
		lines = append(lines, fmt.Sprintf("ALARM since %s: %s", a.Since, a.Text))
	}
	switch {
	case len(r.Alarms.Alarms) > 0:
	case len(r.Checked) == 0:
		lines = append(lines, "too few initialisations for confidence intervals, so no alarm is possible yet")
	default:
		lines = append(lines, fmt.Sprintf("no alarm: %s inside their bands", humanise.Count(len(r.Checked), "score")))
	}
	if r.Verdict != nil {
		lines = append(lines, fmt.Sprint(r.Verdict))
	}
	return answer.Sections{{Text: lines}}
}
