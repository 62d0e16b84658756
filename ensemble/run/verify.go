package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// VerifyOptions says what is judged by what.
type VerifyOptions struct {
	Forecast []string // products: means and spreads
	Analysis []string
	Members  []string      // the raw ensemble of the same starts; may be empty
	Sparse   bool          // absent chunks of Zarr stores are missing values
	Layout   config.Layout // of Members
	// RunDir is the training that the products come from, for the baselines fitted
	// there. Empty: those that predict left beside the products.
	RunDir    string
	Regrid    model.Interpolation // brings members and analyses to the grid of the products
	Out       string              // folder for scores.json and the tables; empty: none
	Choice    ScoreChoice
	Bootstrap score.Bootstrap
	// Climate is a file of quantiles for extreme forecast indices. Empty: that of RunDir, if
	// the training made one.
	Climate string
	Sums    string // file for the sums of all dates, which JoinSums takes; empty: none

	// skip says which products of a target are not judged now. Not nil: nor are those without
	// an analysis yet, and targets are judged by themselves.
	skip func(t score.Target, init ensemble.Init) bool
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

// target is that of scores.
func (k productKey) target() score.Target {
	of, _ := ensemble.VariableNamed(k.variable)
	return score.Target{Variable: k.variable, Level: k.level, Lead: k.lead, Unit: of.Unit}
}

// Verify judges published means and spreads against analyses, and spreads against
// the full ensemble's where its members are given.
//
// Started by an MPI launcher, its ranks deal the starts out among themselves, and rank 0
// joins what they summed, in the order of dates, with the bits that it would have found
// alone. The others give no scores.
//
// Errors: 64 for scores that cannot be chosen so; 65 and 66 for the inputs; 65 if no forecast has an analysis; 71 for a rank
// that was lost.
func Verify(ctx context.Context, o VerifyOptions) (r *VerifyResult, err error) {
	if err := o.Choice.check(); err != nil {
		return nil, err
	}
	err = team.OnCrew("", config.DefaultStall, func(w team.Crew) error {
		r, err = verifyAs(ctx, o, w)
		return err
	})
	return r, err
}

// verifyAs verifies as one rank of a crew.
func verifyAs(ctx context.Context, o VerifyOptions, w team.Crew) (*VerifyResult, error) {
	var err error
	if o.RunDir, _, err = inUse(o.RunDir); err != nil {
		return nil, err
	}
	v := &verification{o: o}
	defer v.close()
	if err := v.judge(ctx, w); err != nil {
		return nil, err
	}
	res := &VerifyResult{Warnings: v.warnings}
	if w.All.Leads() {
		err := v.publish(res)
		return res, w.All.Together(err)
	}
	return res, w.All.Together(nil)
}

// judge looks through the files and joins what all starts add, on the leading rank.
func (v *verification) judge(ctx context.Context, w team.Crew) error {
	if err := w.All.Together(v.open(ctx)); err != nil {
		return err
	}
	if err := w.All.Same("the files or the command line", v.identity()); err != nil {
		return err
	}
	// Several dates at a time keep all children that decode at work.
	var pieces [][]ensemble.Init
	for piece := range slices.Chunk(v.inits, min(datesAtATime, max(1, len(v.inits)/w.Groups()))) {
		pieces = append(pieces, piece)
	}
	return team.Deal(ctx, w, len(pieces), func(i int) ([][]dateSums, error) { return v.sum(ctx, pieces[i]) }, func(_ int, r [][]dateSums) error {
		for i, t := range v.targets {
			for _, d := range r[i] {
				if err := t.scoring.join(d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// datesAtATime bounds the memory of a rank.
const datesAtATime = 8

// verification is the files of a Verify, and what is to be judged of them.
type verification struct {
	o         VerifyOptions
	reference *model.Model   // nil without
	climate   *model.Climate // nil without
	warnings  []string
	pool      *decode.Pool
	products  *fio.Input
	members   *fio.Input // nil without
	analyses  *fio.Input
	grid      *ensemble.Grid
	targets   []*verified
	inits     []ensemble.Init // of all targets, ascending
	waiting   int             // starts that were left out because an analysis is not there
}

// verified is one target of a verification.
type verified struct {
	key        productKey
	products   map[ensemble.Init]map[product.Kind]ensemble.Entry
	calibrated map[ensemble.Init][]ensemble.Entry // members among the products, by number; nil unless all starts have as many
	inits      []ensemble.Init                    // ascending
	members    *selection                         // nil without
	analyses   *references
	scoring    *scoring
	// earlier are those of the same variable and level at earlier leads, of the same starts.
	earlier []*verified

	family     *dist.Family // of the products' parameters; nil where there are none
	parameters map[ensemble.Init][]ensemble.Entry
}

// open looks through the files. close is called in any case.
func (v *verification) open(ctx context.Context) (err error) {
	if v.pool, err = decode.NewPool(decode.Options{}); err != nil {
		return err
	}
	if v.reference, err = findReference(v.o, &v.warnings); err != nil {
		return err
	}
	if v.products, err = fio.Open(ctx, v.o.Forecast, fio.Options{Pool: v.pool, Sparse: v.o.Sparse}); err != nil {
		return err
	}
	if err := v.selectProducts(); err != nil {
		return err
	}
	if v.climate, err = findClimate(v.o, v.grid); err != nil {
		return err
	}
	if v.analyses, err = fio.Open(ctx, v.o.Analysis, fio.Options{Pool: v.pool, Sparse: v.o.Sparse}); err != nil {
		return err
	}
	if v.o.skip != nil {
		if v.trim(); len(v.targets) == 0 {
			return errNothingNew
		}
	}
	if len(v.o.Members) > 0 {
		if v.members, err = fio.Open(ctx, v.o.Members, fio.Options{Pool: v.pool, Sparse: v.o.Sparse, Layout: LayoutOf(v.o.Layout)}); err != nil {
			return err
		}
		if err := v.selectMembers(); err != nil {
			return err
		}
	} else {
		v.warnings = append(v.warnings, "no --members: the raw ensemble, EMOS, the distance to the full ensemble's spread and extreme forecast indices are not scored")
	}
	for _, t := range v.targets {
		if t.analyses, err = selectAnalyses(v.analyses, []string{t.key.variable}, []ensemble.Level{t.key.level}, v.onto(), t.valids(t.inits)); err != nil {
			return err
		}
		j := v.judgement(t.key)
		j.family = t.family
		j.inits, j.of, j.keep = t.inits, score.OfProducts, v.o.Sums != "" || v.o.skip != nil
		if j.baselines != nil {
			if seen := t.among(j.baselines.FittedTo); seen > 0 {
				j.baselines = nil
				v.warnings = append(v.warnings, fmt.Sprintf("%s at %s: no baselines are scored, because they were fitted to the analyses of %d of the %d starts that are judged; the network was trained with these too, so that its scores flatter it",
					t.key.variable, t.key.level, seen, len(t.inits)))
			}
		}
		if t.scoring, err = j.begin(t.shape(v.reference)); err != nil {
			return err
		}
	}
	return nil
}

func (v *verification) close() {
	for _, in := range []*fio.Input{v.products, v.members, v.analyses} {
		if in != nil {
			in.Close()
		}
	}
	if v.pool != nil {
		v.pool.Close()
	}
}

// identity is what all ranks must have alike.
func (v *verification) identity() string {
	text := fmt.Sprint(v.o.Forecast, v.o.Analysis, v.o.Members, v.o.RunDir, v.o.Regrid, v.o.Choice, v.o.Climate, v.inits, v.warnings)
	for _, t := range v.targets {
		text += fmt.Sprint(t.key, t.inits, t.scoring.shape, t.scoring.systems)
	}
	return text
}

// onto is the grid of the products, and how others come there: as is asked for, or as
// the network's input did.
func (v *verification) onto() destination {
	to := destination{v.grid, v.o.Regrid, fixRegrid}
	if !to.how.Asked() && v.reference != nil {
		to.how = v.reference.Interpolation
	}
	return to
}

// judgement is the scoring of one target.
func (v *verification) judgement(k productKey) judgement {
	j := judgement{target: k.target(), grid: v.grid, ddof: 1, bootstrap: v.o.Bootstrap, choice: v.o.Choice}
	if v.reference != nil {
		j.ddof, j.baselines = v.reference.Task.Features.DDOF, baselinesOf(v.reference, k)
	}
	j.climate = v.climate.Find(k.target())
	return j
}

// shape is that of the first start's case.
func (t *verified) shape(reference *model.Model) shape {
	have := t.products[t.inits[0]]
	_, mean := have[product.Mean]
	_, spread := have[product.EnsembleSpread]
	f := shape{Mean: mean, Spread: spread, Obs: true, Calibrated: len(t.calibrated[t.inits[0]]), Earlier: len(t.earlier)}
	if t.members != nil {
		f.Full = len(t.members.members)
		f.Used = f.Full
		if reference != nil {
			f.Used = len(reference.Task.Used)
		}
	}
	return f
}

// valids are the valid times of some starts.
func (t *verified) valids(inits []ensemble.Init) []ensemble.Valid {
	out := make([]ensemble.Valid, len(inits))
	for i, init := range inits {
		out[i] = init.Valid(t.key.lead)
	}
	return out
}

// among is the number of starts whose valid times are among some times, ascending.
func (t *verified) among(times []time.Time) (n int) {
	for _, v := range t.valids(t.inits) {
		if _, found := slices.BinarySearchFunc(times, v.Time, time.Time.Compare); found {
			n++
		}
	}
	return n
}

// sum reads some starts and sums what each of them adds to the scores of each target.
func (v *verification) sum(ctx context.Context, inits []ensemble.Init) ([][]dateSums, error) {
	out := make([][]dateSums, len(v.targets))
	earlier := map[ensemble.Init][]*Case{} // of the present variable and level
	for i, t := range v.targets {
		if len(t.earlier) == 0 {
			clear(earlier)
		}
		cases, err := v.cases(ctx, t, slices.DeleteFunc(slices.Clone(inits), func(i ensemble.Init) bool { return t.products[i] == nil }))
		if err != nil {
			return nil, err
		}
		for n := range cases {
			c := &cases[n]
			if len(t.earlier) > 0 {
				c.Earlier = slices.Clone(earlier[c.Init])
			}
			d, err := t.scoring.sum(*c)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], d)
			earlier[c.Init] = append(earlier[c.Init], c)
		}
	}
	return out, nil
}

// cases reads all that is known of one target on some starts.
func (v *verification) cases(ctx context.Context, t *verified, inits []ensemble.Init) ([]Case, error) {
	if len(inits) == 0 {
		return nil, nil
	}
	cases := make([]Case, len(inits))
	var entries []ensemble.Entry
	var into []*[]float32
	for i, init := range inits {
		c := &cases[i]
		c.Init = init
		for _, f := range []struct {
			kind product.Kind
			to   *[]float32
		}{{product.Mean, &c.Mean}, {product.Spread, &c.Sigma}, {product.EnsembleSpread, &c.Spread}} {
			if e, ok := t.products[init][f.kind]; ok {
				entries, into = append(entries, e), append(into, f.to)
			}
		}
		c.Parameters = make([][]float32, len(t.parameters[init]))
		for k, e := range t.parameters[init] {
			entries, into = append(entries, e), append(into, &c.Parameters[k])
		}
		c.Calibrated = make([][]float32, len(t.calibrated[init]))
		for m, e := range t.calibrated[init] {
			entries, into = append(entries, e), append(into, &c.Calibrated[m])
		}
	}
	if err := v.products.Read(ctx, entries, func(i int, f *ensemble.Field) error { *into[i] = f.Values; return nil }); err != nil {
		return nil, err
	}
	if t.members != nil {
		if err := t.members.check(ctx, inits); err != nil {
			return nil, err
		}
		raw, _, err := t.members.read(ctx, inits, nil)
		if err != nil {
			return nil, err
		}
		for i, fc := range raw {
			c := &cases[i]
			for m := range fc.Members {
				c.Members = append(c.Members, fc.Field(0, m, 0, 0))
			}
			c.Used = model.EveryMember(fc)
			if v.reference != nil {
				if c.Used, err = model.Positions(fc, v.reference.Task.Used); err != nil {
					return nil, err
				}
			}
			for _, m := range c.Used {
				if len(fc.Axes.Leads) > 1 {
					c.Early = append(c.Early, fc.Field(1, m, 0, 0))
				}
			}
		}
	}
	analyses, _, err := t.analyses.read(ctx, t.valids(inits), nil)
	if err != nil {
		return nil, err
	}
	for i, a := range analyses {
		cases[i].Obs = a.Field(0, 0)
	}
	return cases, nil
}

// publish computes the scores and writes their files.
func (v *verification) publish(res *VerifyResult) error {
	var all []*scoring
	for _, t := range v.targets {
		all = append(all, t.scoring)
	}
	trained := v.trainedCoupling()
	if err := publishScores(v.o.Out, all, trained, res); err != nil || v.o.Sums == "" {
		return err
	}
	res.Outputs = append(res.Outputs, v.o.Sums)
	return saveSums(v.o.Sums, all, trained)
}

// publishScores makes the results of some targets, beside what the training found, and writes them into a folder unless that
// is empty.
func publishScores(out string, all []*scoring, trained []score.Coupling, res *VerifyResult) error {
	res.Scores = &score.Result{}
	for _, s := range all {
		r, err := s.result()
		if err != nil {
			return err
		}
		res.Scores.Append(r)
	}
	res.Scores.Coupling = append(res.Scores.Coupling, trained...)
	if out == "" {
		return nil
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return exit.Create(out, err)
	}
	if err := writeScores(out, res.Scores); err != nil {
		return err
	}
	tables, err := writeTables(out, res.Scores)
	res.Outputs = append([]string{filepath.Join(out, ScoresFile), filepath.Join(out, scoresTable), filepath.Join(out, DatesTable)}, tables...)
	return err
}

// findReference loads the model's description and baselines.
func findReference(o VerifyOptions, warnings *[]string) (*model.Model, error) {
	dirs := []string{filepath.Join(filepath.Dir(filepath.Dir(o.Forecast[0])), referenceDir)}
	if o.RunDir != "" {
		dirs = []string{filepath.Join(o.RunDir, "model")}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, model.File)); err == nil {
			m, _, err := model.LoadReference(dir)
			return m, err
		} else if o.RunDir != "" {
			_, _, err := model.LoadReference(dir) // which tells what is missing
			return nil, err
		}
	}
	*warnings = append(*warnings, "no baselines beside the products: climatology and EMOS are not scored; --run-dir names the training they come from")
	return nil, nil
}

// baselinesOf finds the baselines of a target, nil if it was none of the model's.
func baselinesOf(m *model.Model, k productKey) *model.Baselines {
	d := len(m.Task.Features.Axes.Levels)
	v, l := slices.Index(m.Task.Targets, model.Target{Variable: k.variable, Lead: k.lead}), ensemble.FindLevel(m.Task.Features.Axes.Levels, k.variable, k.level)
	if v < 0 || l < 0 || v*d+l >= len(m.Baselines) {
		return nil
	}
	return &m.Baselines[v*d+l]
}

// leadsFor are those of the raw members by which a target is judged: its own, and where the network has
// not read that the last one that it has.
func leadsFor(m *model.Model, k productKey) []ensemble.Lead {
	out := []ensemble.Lead{k.lead}
	if m == nil {
		return out
	}
	v := slices.Index(m.Task.Targets, model.Target{Variable: k.variable, Lead: k.lead})
	if known := m.Task.Features.Axes.Leads; v >= 0 && !slices.Contains(known, k.lead) {
		out = append(out, known[len(known)-1])
	}
	return out
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

// selectProducts finds the products by target and start.
func (v *verification) selectProducts() error {
	byKey := map[productKey]*verified{}
	var entries []ensemble.Entry
	all := v.products.Catalogue().Entries
	onGrid := slices.ContainsFunc(all, func(e ensemble.Entry) bool { return kindOf(e) != "" && e.Grid.Kind != ensemble.Points })
	for _, e := range all {
		kind := kindOf(e)
		if kind == "" || onGrid && e.Grid.Kind == ensemble.Points { // what was interpolated to stations beside is judged by their observations, not by analyses
			continue
		}
		entries = append(entries, e)
		k := productKey{e.Variable, e.Level, e.Lead}
		t := byKey[k]
		if t == nil {
			t = &verified{key: k, products: map[ensemble.Init]map[product.Kind]ensemble.Entry{}}
			byKey[k] = t
			v.targets = append(v.targets, t)
		}
		if t.products[e.Init] == nil {
			t.products[e.Init] = map[product.Kind]ensemble.Entry{}
			t.inits = append(t.inits, e.Init)
		}
		if _, twice := t.products[e.Init][kind]; !twice { // else one product in two formats
			t.products[e.Init][kind] = e
		}
	}
	if len(entries) == 0 {
		return &exit.Error{Code: exit.BadData, What: "the forecast files hold no mean and no spread", At: place(v.products.Files()),
			Why: "verification judges products; raw members are given with --members", Fix: "give the files that `ensemble predict` wrote"}
	}
	var err error
	if v.grid, err = oneGrid(entries, "give products of one grid"); err != nil {
		return err
	}
	slices.SortFunc(v.targets, func(a, b *verified) int {
		return compareTargets(a.key.target(), b.key.target())
	})
	ascending := func(a, b ensemble.Init) int { return a.Compare(b.Time) }
	for _, t := range v.targets {
		slices.SortFunc(t.inits, ascending)
		v.inits = append(v.inits, t.inits...)
		for _, init := range t.inits {
			_, mean := t.products[init][product.Mean]
			if _, sigma := t.products[init][product.Spread]; mean != sigma {
				return &exit.Error{Code: exit.NotYet, What: "a mean without its spread, or a spread without its mean",
					At: fmt.Sprintf("%s at %s, start %s, lead %s", t.key.variable, t.key.level, init, t.key.lead), Fix: "give all files of the cycle"}
			}
		}
	}
	slices.SortFunc(v.inits, ascending)
	v.inits = slices.Compact(v.inits)
	v.selectCalibrated()
	v.follow()
	v.selectParameters(all)
	return nil
}

// selectParameters finds the parameters of the distributions by target and start. Targets without
// them at any start are judged by mean and spread, as normal distributions.
func (v *verification) selectParameters(all []ensemble.Entry) {
	for _, t := range v.targets {
		found := map[ensemble.Init]map[string]ensemble.Entry{}
		id := ""
		for _, e := range all {
			variable, name, family, ok := product.ParameterNamed(e.Variable, e.LongName)
			if !ok || variable != t.key.variable || e.Lead != t.key.lead || !sameLevel(e.Level, t.key.level) || !e.Grid.SameAs(v.grid, gridTolerance) {
				continue
			}
			if found[e.Init] == nil {
				found[e.Init] = map[string]ensemble.Entry{}
			}
			found[e.Init][name], id = e, family
		}
		if len(found) > 0 {
			t.family = dist.FamilyOf(id, len(found[t.inits[0]]))
		}
		t.parameters = map[ensemble.Init][]ensemble.Entry{}
		for _, init := range t.inits {
			if t.family == nil {
				break
			}
			for _, name := range t.family.Parameters {
				e, ok := found[init][name]
				if _, _, family, _ := product.ParameterNamed(e.Variable, e.LongName); !ok || family != id {
					t.family = nil
					break
				}
				t.parameters[init] = append(t.parameters[init], e)
			}
		}
		if t.family == nil {
			t.parameters = nil
		}
		if m := v.reference; t.family == nil && (len(found) > 0 || m != nil && m.NotNormal()) {
			v.warnings = append(v.warnings, fmt.Sprintf("%s at %s is judged by mean and spread, as a normal distribution, which it is not: parameters are not among the products of all starts",
				t.key.variable, t.key.level))
		}
	}
}

// sameLevel tells whether fields are at one level. Of a parameter of a variable that has one level
// no file may say which.
func sameLevel(a, b ensemble.Level) bool {
	return a == b || a.Kind != ensemble.Pressure && b.Kind != ensemble.Pressure
}

// selectMembers finds the raw members of all targets.
func (v *verification) selectMembers() error {
	members := slices.DeleteFunc(v.members.Catalogue().Members(), func(m ensemble.Member) bool { return m == ensemble.NoMember })
	if v.reference != nil {
		if len(members) > v.reference.Task.Full {
			members = members[:v.reference.Task.Full]
		}
		for _, m := range v.reference.Task.Used {
			if !slices.Contains(members, m) {
				return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("member %s is missing", m), At: place(v.o.Members),
					Why: "the network used it", Fix: "give the files of all members that the network used"}
			}
		}
	}
	for _, t := range v.targets {
		axes := ensemble.Axes{Variables: []string{t.key.variable}, Levels: []ensemble.Level{t.key.level}, Leads: leadsFor(v.reference, t.key)}
		var err error
		if t.members, err = selectForecasts(v.members, axes, members, v.onto()); err != nil {
			return err
		}
		if g := t.members.grid; !g.SameAs(v.grid, gridTolerance) {
			return gridsDiffer("the members", g, "the products", v.grid, fixRegrid).on(t.members.entries[0]).err()
		}
		found := 0
		for _, init := range t.inits {
			if slices.Contains(t.members.inits, init) {
				found++
			}
		}
		if found != len(t.inits) {
			return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("members are given for %d of %d starts", found, len(t.inits)),
				At: fmt.Sprintf("%s at %s, lead %s", t.key.variable, t.key.level, t.key.lead), Fix: "give the members of all starts, or of none"}
		}
	}
	return nil
}

// follow finds for each target those at earlier leads, where starts and members are the same: whole
// trajectories are scored. Others are by themselves.
func (v *verification) follow() {
	for i, t := range v.targets {
		if i == 0 {
			continue
		}
		last := v.targets[i-1]
		same := last.key.variable == t.key.variable && last.key.level == t.key.level && slices.Equal(last.inits, t.inits)
		for _, init := range t.inits {
			same = same && slices.EqualFunc(last.calibrated[init], t.calibrated[init], func(a, b ensemble.Entry) bool { return a.Member == b.Member })
		}
		if same {
			t.earlier = append(slices.Clone(last.earlier), last)
		}
	}
}
