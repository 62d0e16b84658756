package run

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/gain"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// sumsHead is what sums of one target must have alike to be joined: all that decides which
// numbers are summed, but not the dates.
type sumsHead struct {
	Target   score.Target
	Grid     *ensemble.Grid
	DDOF     int
	Shape    shape
	Choice   ScoreChoice
	Methods  []string // baselines that are scored
	Affine   baseline.AffineSpread
	Split    int // members whose gain is split, 0 if it is not
	Quantile int // steps of the climate, 0 without
	// Family is that of the network's distribution with so many parameters; empty for mean and spread.
	Family     string
	Parameters int
}

// savedSums are a file of sums.
type savedSums struct {
	Targets []sumsOfTarget
	// Trained is what the training found of coupling, as verification repeats it.
	Trained []score.Coupling
}

// sumsOfTarget are those of one target: Head is a sumsHead as JSON.
type sumsOfTarget struct {
	Head  []byte
	Dates []dateSums // ascending
}

// sumsSchema begins a file of sums; then comes a line with the SHA-256 of the rest, which is in gob, and of one version
// of the program.
const sumsSchema = "ensemble.sums/2\n"

// head describes the sums of a scoring.
func (s *scoring) head() sumsHead {
	h := sumsHead{Target: s.target, Grid: s.grid, DDOF: s.ddof, Shape: s.shape, Choice: s.choice}
	if s.baselines != nil {
		h.Affine = s.baselines.Affine
		for _, b := range s.baselines.Fits {
			h.Methods = append(h.Methods, b.Method.ID)
		}
	}
	if s.splits() {
		h.Split = s.baselines.Gain.Members
	}
	if s.climate != nil {
		h.Quantile = s.climate.Steps
	}
	if s.family != nil {
		h.Family, h.Parameters = s.family.ID, len(s.family.Parameters)
	}
	return h
}

// begin starts a scoring that can be given the sums of the head.
func (h *sumsHead) begin(b score.Bootstrap, inits []ensemble.Init) (*scoring, error) {
	j := judgement{target: h.Target, grid: h.Grid, ddof: h.DDOF, choice: h.Choice, bootstrap: b, baselines: &model.Baselines{Affine: h.Affine},
		inits: inits, of: score.OfProducts, keep: true}
	if h.Family != "" {
		if j.family = dist.FamilyOf(h.Family, h.Parameters); j.family == nil {
			return nil, fmt.Errorf("there is no family %q", h.Family)
		}
	}
	for _, id := range h.Methods {
		at := slices.IndexFunc(baseline.Methods, func(m *baseline.Method) bool { return m.ID == id })
		if at < 0 {
			return nil, fmt.Errorf("there is no baseline %q", id)
		}
		j.baselines.Fits = append(j.baselines.Fits, model.Baseline{Method: baseline.Methods[at]})
	}
	if h.Split > 0 {
		j.baselines.Gain = &gain.Steps{Members: h.Split}
	}
	if h.Quantile > 0 {
		j.climate = &score.Climate{Steps: h.Quantile}
	}
	return j.begin(h.Shape)
}

// saveSums writes what all dates add to the scores of some targets, which have kept it.
//
// Errors: exit 73 or 74.
func saveSums(path string, all []*scoring, trained []score.Coupling) error {
	out := savedSums{Trained: trained}
	for _, s := range all {
		head, err := json.Marshal(s.head())
		if err != nil {
			return fmt.Errorf("sums: %w", err)
		}
		out.Targets = append(out.Targets, sumsOfTarget{head, s.kept})
	}
	return out.save(path)
}

// save writes a file of sums.
func (s *savedSums) save(path string) error {
	var rest bytes.Buffer
	if err := gob.NewEncoder(&rest).Encode(s); err != nil {
		return fmt.Errorf("sums: %w", err)
	}
	return exit.Create(path, atomicfile.Write(path, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s%x\n%s", sumsSchema, sha256.Sum256(rest.Bytes()), rest.Bytes())
		return err
	}))
}

// init is the start that sums are of.
func (d dateSums) init() ensemble.Init {
	switch {
	case d.Distribution != nil:
		return d.Distribution.Init
	case d.Spread != nil:
		return d.Spread.Init
	case d.Gain != nil:
		return d.Gain.Init
	}
	return ensemble.Init{}
}

// JoinOptions say which sums make one verification.
type JoinOptions struct {
	Files     []string // that Verify left, VerifyOptions.Sums
	Out       string   // as VerifyOptions.Out
	Sums      string   // file for the sums of all of them; empty: none
	Bootstrap score.Bootstrap
}

// JoinSums makes the scores of all dates of several verifications, with the bits of one run
// over all of them.
//
// Errors: exit 65 for files that are no sums, or sums of other targets' grids, scores, baselines
// or members than another file has, or of a start that another file has too; 66 for files that
// cannot be read.
func JoinSums(o JoinOptions) (*VerifyResult, error) {
	all, trained, warnings, err := joinFiles(o.Files, o.Bootstrap)
	if err != nil {
		return nil, err
	}
	res := &VerifyResult{Warnings: warnings}
	if err := publishScores(o.Out, all, trained, res); err != nil || o.Sums == "" {
		return res, err
	}
	res.Outputs = append(res.Outputs, o.Sums)
	return res, saveSums(o.Sums, all, trained)
}

// joinFiles joins files of sums, and gives what the first of them repeats of the training.
func joinFiles(files []string, b score.Bootstrap) (all []*scoring, trained []score.Coupling, warnings []string, err error) {
	var found []*foundSums
	for i, path := range files {
		saved, err := loadSums(path)
		if err != nil {
			return nil, nil, nil, err
		}
		if i == 0 {
			trained = saved.Trained
		}
		for _, t := range saved.Targets {
			at := slices.IndexFunc(found, func(f *foundSums) bool { return bytes.Equal(f.head, t.Head) })
			if at < 0 {
				f := &foundSums{head: t.Head, path: path}
				if err := json.Unmarshal(t.Head, &f.sumsHead); err != nil {
					return nil, nil, nil, badSums(path, err)
				}
				for _, other := range found {
					if other.Target == f.Target {
						return nil, nil, nil, &exit.Error{Code: exit.BadData, What: "the sums are not of the same thing", At: path,
							Why: fmt.Sprintf("%s at %s, lead %s: %s than in %s", f.Target.Variable, f.Target.Level, f.Target.Lead, differ(other.head, f.head), other.path),
							Fix: "join verifications of one kind: the same grid, members, baselines, scores, regions and weights"}
					}
				}
				at, found = len(found), append(found, f)
			}
			for _, d := range t.Dates {
				found[at].dates = append(found[at].dates, foundDate{d, path})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *foundSums) int { return compareTargets(a.Target, b.Target) })
	all = make([]*scoring, len(found))
	for i, f := range found {
		if all[i], err = f.join(b); err != nil {
			return nil, nil, nil, err
		}
	}
	return all, trained, unequalDates(found), nil
}

// foundSums are those of one target in all files.
type foundSums struct {
	sumsHead
	head  []byte
	path  string // of the first
	dates []foundDate
}

// foundDate is what a date adds, and where that was found.
type foundDate struct {
	dateSums
	path string
}

// join makes a scoring of all dates, in their order.
func (f *foundSums) join(b score.Bootstrap) (*scoring, error) {
	slices.SortStableFunc(f.dates, func(a, b foundDate) int { return a.init().Compare(b.init().Time) })
	inits := make([]ensemble.Init, len(f.dates))
	for i, d := range f.dates {
		inits[i] = d.init()
	}
	s, err := f.begin(b, inits)
	if err != nil {
		return nil, badSums(f.path, err)
	}
	for _, d := range f.dates {
		if err := s.join(d.dateSums); err != nil {
			return nil, &exit.Error{Code: exit.BadData, What: "the sums cannot be joined", At: d.path, Why: strings.TrimPrefix(err.Error(), "score: "), Fix: "give every start in one file only", Err: err}
		}
	}
	return s, nil
}

func badSums(path string, err error) error {
	return &exit.Error{Code: exit.BadData, What: "these are no sums of scores", At: path, Why: err.Error(), Fix: "give files of `ensemble verify --sums`, made by this version of the program; those of --rolling are made anew when they are removed", Err: err}
}

// compareTargets is the order of targets in results.
func compareTargets(a, b score.Target) int {
	return cmp.Or(strings.Compare(a.Variable, b.Variable), cmp.Compare(b.Level.Value, a.Level.Value), cmp.Compare(a.Lead, b.Lead))
}

// unequalDates warns of targets that have fewer starts than others.
func unequalDates(all []*foundSums) (warnings []string) {
	most := 0
	for _, f := range all {
		most = max(most, len(f.dates))
	}
	for _, f := range all {
		if n := len(f.dates); n < most {
			warnings = append(warnings, fmt.Sprintf("%s at %s, lead %s, has %d starts, others %d", f.Target.Variable, f.Target.Level, f.Target.Lead, n, most))
		}
	}
	return warnings
}

// differ names the first parts of two heads that are not alike.
func differ(a, b []byte) string {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return "they cannot be compared"
	}
	var names []string
	for name := range x {
		if !bytes.Equal(x[name], y[name]) {
			names = append(names, strings.ToLower(name))
		}
	}
	slices.Sort(names)
	return "other " + strings.Join(names, ", ")
}

// loadSums reads what saveSums wrote.
func loadSums(path string) (*savedSums, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.Read(path, err)
	}
	saved, err := parseSums(text)
	if err != nil {
		return nil, badSums(path, err)
	}
	return saved, nil
}

// parseSums reads a file of sums.
func parseSums(text []byte) (*savedSums, error) {
	rest, ok := bytes.CutPrefix(text, []byte(sumsSchema))
	if !ok {
		return nil, errors.New("it does not begin as sums of this program do")
	}
	sum, rest, _ := bytes.Cut(rest, []byte{'\n'})
	if fmt.Sprintf("%x", sha256.Sum256(rest)) != string(sum) {
		return nil, errors.New("it is damaged, or ends early: its SHA-256 is not the one it says")
	}
	saved := &savedSums{}
	return saved, gob.NewDecoder(bytes.NewReader(rest)).Decode(saved)
}
