package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// VerifyOptions says what is judged by what.
type VerifyOptions struct {
	Forecast []string // products: means and spreads
	Analysis []string
	Members  []string // the raw ensemble of the same starts; may be empty
	// RunDir is the training that the products come from, for the baselines fitted
	// there. Empty: those that predict left beside the products.
	RunDir    string
	Out       string // folder for scores.json and scores.parquet; empty: none
	Bootstrap score.Bootstrap
}

// VerifyResult is what came out.
type VerifyResult struct {
	Scores   *score.Result
	Outputs  []string
	Warnings []string
}

// referenceDir is the folder in the root of the products in which predict leaves
// the baselines that verification sets beside the network.
const referenceDir = "reference"

// what one product field is: a target of verification and its statistic.
type productKey struct {
	variable string
	level    ensemble.Level
	lead     ensemble.Lead
}

// Verify judges published means and spreads against analyses, and spreads against
// the full ensemble's where its members are given.
//
// Errors: 65 and 66 for the inputs; 65 if no forecast has an analysis.
func Verify(ctx context.Context, o VerifyOptions) (*VerifyResult, error) {
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	res := &VerifyResult{}
	reference, err := findReference(o, &res.Warnings)
	if err != nil {
		return nil, err
	}
	forecasts, err := fio.Open(ctx, o.Forecast, fio.Options{Pool: pool})
	if err != nil {
		return nil, err
	}
	defer forecasts.Close()
	cases, grid, err := productCases(ctx, forecasts)
	if err != nil {
		return nil, err
	}
	if len(o.Members) > 0 {
		if err := addMembers(ctx, pool, o.Members, cases, grid, reference); err != nil {
			return nil, err
		}
	}
	if err := addAnalyses(ctx, pool, o.Analysis, cases, grid); err != nil {
		return nil, err
	}
	if len(o.Members) == 0 {
		res.Warnings = append(res.Warnings, "no --members: the raw ensemble, EMOS and the distance to the full ensemble's spread are not scored")
	}
	res.Scores = &score.Result{}
	for _, k := range sortedKeys(cases) {
		list := make([]Case, 0, len(cases[k]))
		for _, c := range cases[k] {
			list = append(list, *c)
		}
		v, _ := ensemble.VariableNamed(k.variable)
		j := judgement{target: score.Target{Variable: k.variable, Level: k.level, Lead: k.lead, Unit: v.Unit}, grid: grid, ddof: 1, bootstrap: o.Bootstrap}
		if reference != nil {
			j.ddof, j.baselines = reference.Task.Features.DDOF, reference.baselinesOf(k)
		}
		r, err := j.score(list)
		if err != nil {
			return nil, err
		}
		res.Scores.Append(r)
	}
	if o.Out == "" {
		return res, nil
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, exit.Create(o.Out, err)
	}
	res.Outputs = []string{filepath.Join(o.Out, scoresFile), filepath.Join(o.Out, scoresTable)}
	return res, writeScores(o.Out, res.Scores)
}

// findReference loads the model's description and baselines.
func findReference(o VerifyOptions, warnings *[]string) (*Model, error) {
	dirs := []string{filepath.Join(filepath.Dir(filepath.Dir(o.Forecast[0])), referenceDir)}
	if o.RunDir != "" {
		dirs = []string{filepath.Join(o.RunDir, "model")}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, modelFile)); err == nil {
			return LoadModel(dir)
		} else if o.RunDir != "" {
			return LoadModel(dir) // gives the error that tells what is missing
		}
	}
	*warnings = append(*warnings, "no baselines beside the products: climatology and EMOS are not scored; --run-dir names the training they come from")
	return nil, nil
}

// baselinesOf finds the baselines of a target, nil if it was none of the model's.
func (m *Model) baselinesOf(k productKey) *Baselines {
	d := len(m.Task.Features.Axes.Levels)
	v, l := slices.Index(m.Task.Targets, k.variable), slices.Index(m.Task.Features.Axes.Levels, k.level)
	if v < 0 || l < 0 || k.lead != m.Task.TargetLead || v*d+l >= len(m.Baselines) {
		return nil
	}
	return &m.Baselines[v*d+l]
}

// kindOf tells the statistics apart that share a cell method.
func kindOf(e ensemble.Entry) product.Kind {
	switch {
	case e.Product == ensemble.EnsembleMean:
		return product.Mean
	case e.Product != ensemble.Spread:
		return ""
	case strings.Contains(e.LongName, "full ensemble"), strings.Contains(filepath.Base(e.File), "_"+string(product.EnsembleSpread)+"."):
		return product.EnsembleSpread
	}
	return product.Spread
}

// productCases reads the products into cases by target and start.
func productCases(ctx context.Context, in *fio.Input) (map[productKey]map[ensemble.Init]*Case, *ensemble.Grid, error) {
	type name struct {
		key  ensemble.Key
		kind product.Kind
	}
	seen := map[name]bool{}
	var entries []ensemble.Entry
	var kinds []product.Kind
	for _, e := range in.Catalogue().Entries {
		kind := kindOf(e)
		if kind == "" {
			continue
		}
		n := name{e.Key, kind}
		if seen[n] { // one product in two formats
			continue
		}
		seen[n] = true
		entries, kinds = append(entries, e), append(kinds, kind)
	}
	if len(entries) == 0 {
		return nil, nil, &exit.Error{Code: exit.BadData, What: "the forecast files hold no mean and no spread", At: place(in.Files()),
			Why: "verification judges products; raw members are given with --members", Fix: "give the files that `ensemble predict` wrote"}
	}
	grid, err := oneGrid(entries)
	if err != nil {
		return nil, nil, err
	}
	cases := map[productKey]map[ensemble.Init]*Case{}
	err = in.Read(ctx, entries, func(i int, f *ensemble.Field) error {
		k := productKey{f.Key.Variable, f.Key.Level, f.Key.Lead}
		if cases[k] == nil {
			cases[k] = map[ensemble.Init]*Case{}
		}
		c := cases[k][f.Key.Init]
		if c == nil {
			c = &Case{Init: f.Key.Init}
			cases[k][f.Key.Init] = c
		}
		switch kinds[i] {
		case product.Mean:
			c.Mean = f.Values
		case product.Spread:
			c.Sigma = f.Values
		default:
			c.Spread = f.Values
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for k, byInit := range cases {
		for init, c := range byInit {
			if (c.Mean == nil) != (c.Sigma == nil) {
				return nil, nil, &exit.Error{Code: exit.NotYet, What: "a mean without its spread, or a spread without its mean",
					At: fmt.Sprintf("%s at %s, start %s, lead %s", k.variable, k.level, init, k.lead), Fix: "give all files of the cycle"}
			}
		}
	}
	return cases, grid, nil
}

// addMembers puts the raw members into the cases.
func addMembers(ctx context.Context, pool *decode.Pool, files []string, cases map[productKey]map[ensemble.Init]*Case, grid *ensemble.Grid, reference *Model) error {
	in, err := fio.Open(ctx, files, fio.Options{Pool: pool})
	if err != nil {
		return err
	}
	defer in.Close()
	members := slices.DeleteFunc(in.Catalogue().Members(), func(m ensemble.Member) bool { return m == ensemble.NoMember })
	if reference != nil && len(members) > reference.Task.Full {
		members = members[:reference.Task.Full]
	}
	for _, k := range sortedKeys(cases) {
		axes := ensemble.Axes{Variables: []string{k.variable}, Levels: []ensemble.Level{k.level}, Leads: []ensemble.Lead{k.lead}}
		raw, _, err := forecastsOf(ctx, in, axes, members)
		if err != nil {
			return err
		}
		if !raw[0].Grid.SameAs(grid, gridTolerance) {
			return gridsDiffer("the members", raw[0].Grid, "the products", grid, files[0])
		}
		found := 0
		for _, fc := range raw {
			c := cases[k][fc.Init]
			if c == nil {
				continue
			}
			found++
			for m := range members {
				c.Members = append(c.Members, fc.Field(0, m, 0, 0))
			}
			c.Used = everyMember(fc)
			if reference != nil {
				if c.Used, err = positions(fc, reference.Task.Used); err != nil {
					return &exit.Error{Code: exit.NotYet, What: err.Error(), At: place(files), Fix: "give the files of all members that the network used", Err: err}
				}
			}
		}
		if found != len(cases[k]) {
			return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("members are given for %d of %d starts", found, len(cases[k])),
				At: fmt.Sprintf("%s at %s, lead %s", k.variable, k.level, k.lead), Fix: "give the members of all starts, or of none"}
		}
	}
	return nil
}

// addAnalyses puts the analyses of the valid times into the cases.
func addAnalyses(ctx context.Context, pool *decode.Pool, files []string, cases map[productKey]map[ensemble.Init]*Case, grid *ensemble.Grid) error {
	in, err := fio.Open(ctx, files, fio.Options{Pool: pool})
	if err != nil {
		return err
	}
	defer in.Close()
	for k, byInit := range cases {
		var inits []ensemble.Init
		for i := range byInit {
			inits = append(inits, i)
		}
		slices.SortFunc(inits, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
		valids := make([]ensemble.Valid, len(inits))
		for i, init := range inits {
			valids[i] = init.Valid(k.lead)
		}
		all, _, err := analysesOf(ctx, in, []string{k.variable}, []ensemble.Level{k.level}, grid, valids)
		if err != nil {
			return err
		}
		for i, a := range all {
			byInit[inits[i]].Obs = a.Field(0, 0)
		}
	}
	return nil
}

func sortedKeys(cases map[productKey]map[ensemble.Init]*Case) []productKey {
	var keys []productKey
	for k := range cases {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b productKey) int {
		return cmp.Or(strings.Compare(a.variable, b.variable), cmp.Compare(b.level.Value, a.level.Value), cmp.Compare(a.lead, b.lead))
	})
	return keys
}
