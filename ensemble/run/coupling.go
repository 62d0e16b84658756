package run

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/ecc"
)

// coupling is how calibrated members of a start are made.
type coupling struct {
	config.Coupling
	archive *archive            // of past analyses; nil but for the Schaake shuffle
	fields  map[int][][]float32 // its template by target, on the model's grid
}

// schaake tells whether members are in the order of past analyses.
func (c *coupling) schaake() bool { return c.Method == config.SchaakeCoupling }

// words say how members are made, as files do.
func (c *coupling) words() string {
	levels := "(m-1/2)/M"
	if c.Levels == config.EquidistantLevels {
		levels = "m/(M+1)"
	}
	switch c.Method {
	case config.RandomCoupling:
		return "random draws in the order of the raw members (ensemble copula coupling, ECC-R)"
	case config.TransformationCoupling:
		return "levels of the raw members in a normal distribution fitted to them (ensemble copula coupling, ECC-T)"
	case config.SchaakeCoupling:
		return "quantiles of the levels " + levels + " in the order of past analyses (Schaake shuffle)"
	}
	return "quantiles of the levels " + levels + " in the order of the raw members (ensemble copula coupling, ECC-Q)"
}

// members are the numbers of the calibrated members that the used ones give.
func (c *coupling) members(used []ensemble.Member) []ensemble.Member {
	if !c.schaake() {
		return used
	}
	out := make([]ensemble.Member, cmp.Or(c.Count, len(used)))
	for i := range out {
		out[i] = ensemble.Member(i + 1)
	}
	return out
}

// template are the fields in whose order the members of a target are, on the model's grid.
// raw are the used members of all targets.
func (ch *choice) template(at int, raw []float32, used int) [][]float32 {
	if ch.coupling.schaake() {
		return ch.coupling.fields[at]
	}
	k, n := &ch.model.Task, ch.model.Grid.Size()
	out := make([][]float32, used)
	for m := range out {
		i := m*len(k.Targets)*len(k.Features.Axes.Levels) + at
		out[m] = raw[i*n : (i+1)*n]
	}
	return out
}

// couple makes the calibrated members of a target at the places of a grid.
//
// Shape: the template and the result [member][point].
func (c *coupling) couple(init ensemble.Init, f *product.Field, grid *ensemble.Grid, template [][]float32, family *dist.Family, parameters model.ParameterFields) ([][]float32, error) {
	par := make([]float64, len(parameters))
	at := func(point int) []float64 { return parameters.At(par, point) }
	quantile := func(point int, level float64) float64 { return family.Quantile(at(point), level) }
	switch c.Method {
	case config.RandomCoupling:
		return ecc.Members(template, ecc.Drawn(len(template), seedOfField(init, f), streams(grid)), quantile)
	case config.TransformationCoupling:
		return ecc.Members(template, ecc.Fitted(), quantile)
	}
	levels := ecc.MidLevels(len(template))
	if c.Levels == config.EquidistantLevels {
		levels = ecc.Levels(len(template))
	}
	quantiles := map[float64]func(par []float64) float64{}
	for _, l := range levels {
		quantiles[l] = family.QuantileAt(l)
	}
	return ecc.Calibrated(template, levels, func(point int, level float64) float64 { return quantiles[level](at(point)) })
}

// seedOfField is the seed of the draws of a start, lead, variable and level.
func seedOfField(init ensemble.Init, f *product.Field) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %s %s", init, f.Lead, f.Variable, f.Level)
	return h.Sum64()
}

// streams number the places of a grid by their coordinates, so that a place has the same
// number in every part of a grid.
func streams(g *ensemble.Grid) func(point int) uint64 {
	return func(point int) uint64 {
		const perDegree, turn = 1e4, 360e4 // less than grids are rounded by
		lon := math.Mod(math.Round(g.LonAt(point/g.NX, point%g.NX)*perDegree), turn)
		if lon < 0 {
			lon += turn
		}
		h := fnv.New64a()
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], uint64(int64(math.Round(g.LatAt(point/g.NX, point%g.NX)*perDegree))))
		binary.LittleEndian.PutUint64(b[8:], uint64(int64(lon)))
		h.Write(b[:])
		return h.Sum64()
	}
}

// archive is the past analyses of which the Schaake shuffle takes its template.
type archive struct {
	in     *fio.Input
	window time.Duration
	fields []archived
	// times, ascending, are those at which there is an analysis of all fields, of later leads as much later.
	times []ensemble.Valid
}

// archived is one target of a model in an archive.
type archived struct {
	at       int // of the model's targets
	variable string
	level    ensemble.Level
	later    time.Duration // than the first target lead
}

// openArchive looks through past analyses of what a choice publishes. No values are read.
//
// Errors: those of fio.List and fio.Open; exit 66 if there is no time at which all
// fields are there.
func openArchive(ctx context.Context, pool *decode.Pool, c config.Coupling, ch *choice) (*archive, error) {
	files, err := filesOf("coupling.template", c.Template)
	if err != nil {
		return nil, err
	}
	a := &archive{window: c.Window}
	k := &ch.model.Task
	d := len(k.Features.Axes.Levels)
	for _, f := range ch.fields {
		at := k.At(model.Target{Variable: f.Variable, Lead: f.Lead}, f.Level)
		one := archived{at, f.Variable, k.Features.Axes.Levels[at%d], time.Duration(f.Lead - k.Targets[0].Lead)}
		if (f.Kind == product.Member || f.Kind == product.NeighbourhoodAny) && !slices.Contains(a.fields, one) {
			a.fields = append(a.fields, one)
		}
	}
	if a.in, err = fio.Open(ctx, files, fio.Options{Pool: pool}); err != nil {
		return nil, err
	}
	have := map[ensemble.Valid]int{}
	for _, f := range a.fields {
		here := map[ensemble.Valid]bool{}
		for _, e := range a.in.Catalogue().Entries {
			if e.Lead == 0 && e.Product == ensemble.MemberField && e.Statistic == "" && e.Variable == f.variable &&
				ensemble.FindLevel([]ensemble.Level{f.level}, e.Variable, e.Level) >= 0 {
				if t := f.first(e.Valid()); !here[t] {
					here[t] = true
					have[t]++
				}
			}
		}
	}
	for t, n := range have {
		if n == len(a.fields) {
			a.times = append(a.times, t)
		}
	}
	slices.SortFunc(a.times, func(x, y ensemble.Valid) int { return x.Compare(y.Time) })
	if a.times == nil {
		err := &exit.Error{Code: exit.NotYet, What: "no template for the Schaake shuffle", At: place(files),
			Why: "at no time is there an analysis of all that is published: " + ch.model.Targets(), Fix: "name files of past analyses of these in coupling.template"}
		a.in.Close()
		return nil, err
	}
	return a, nil
}

// first is the time of the first target lead in a trajectory of analyses that is here at a time; when is
// the inverse.
func (f archived) first(at ensemble.Valid) ensemble.Valid { return ensemble.ValidAt(at.Add(-f.later)) }

func (f archived) when(first ensemble.Valid) ensemble.Valid {
	return ensemble.ValidAt(first.Add(f.later))
}

// dates are the analyses that make the template of members of one start: from before it,
// at the time of day and in the season of its first valid time, evenly over those that there are. Members of
// later leads have the analyses that follow on these, so that each is a trajectory.
//
// Errors: exit 66 if there are fewer.
func (a *archive) dates(init ensemble.Init, lead ensemble.Lead, members int) ([]ensemble.Valid, error) {
	valid := init.Valid(lead)
	var fit []ensemble.Valid
	for _, t := range a.times {
		if a.last(t).Before(init.Time) && t.Time.Truncate(time.Minute).Sub(valid.Time.Truncate(time.Minute))%(24*time.Hour) == 0 && seasonApart(t.Time, valid.Time) <= a.window {
			fit = append(fit, t)
		}
	}
	if len(fit) < members {
		return nil, &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("%d analyses are a template for %s", len(fit), phrase.Count(members, "member")), At: place(a.in.Files()),
			Why: fmt.Sprintf("start %s: they are from before it, at %s, and not more than %g days from its season; there are %s at any time", init, valid.UTC().Format("15:04Z"), a.window.Hours()/24, phrase.Count(len(a.times), "analysis time")),
			Fix: "add analyses to coupling.template, widen coupling.window, or lower coupling.count"}
	}
	out := make([]ensemble.Valid, members)
	for m := range out {
		out[m] = fit[(2*m+1)*len(fit)/(2*members)]
	}
	return out, nil
}

// seasonApart is how far two times lie apart in the year, at most half of it.
func seasonApart(a, b time.Time) time.Duration {
	const year = 8766 * time.Hour
	d := a.Sub(b).Abs() % year
	return min(d, year-d)
}

// last is the last time of the trajectory that begins at a time.
func (a *archive) last(first ensemble.Valid) ensemble.Valid {
	last := first
	for _, f := range a.fields {
		if t := f.when(first); t.After(last.Time) {
			last = t
		}
	}
	return last
}

// files are those in which the analyses of trajectories lie that begin at some times.
func (a *archive) files(times []ensemble.Valid) []string {
	all := map[ensemble.Valid]bool{}
	for _, f := range a.fields {
		for _, t := range times {
			all[f.when(t)] = true
		}
	}
	var out []string
	for _, e := range a.in.Catalogue().Entries {
		if all[e.Valid()] && !slices.Contains(out, e.File) {
			out = append(out, e.File)
		}
	}
	return out
}

// read reads the template of a start by target.
//
// Errors: as selectAnalyses and the reading of references; exit 65 if a file has changed.
func (a *archive) read(ctx context.Context, to destination, times []ensemble.Valid) (map[int][][]float32, error) {
	out := map[int][][]float32{}
	for _, f := range a.fields {
		own := make([]ensemble.Valid, len(times))
		for i, t := range times {
			own[i] = f.when(t)
		}
		s, err := selectAnalyses(a.in, []string{f.variable}, []ensemble.Level{f.level}, to, own)
		if err != nil {
			return nil, err
		}
		all, _, err := s.read(ctx, own, nil)
		if err != nil {
			return nil, err
		}
		for _, analysis := range all {
			out[f.at] = append(out[f.at], analysis.Field(0, 0))
		}
	}
	return out, a.in.Unchanged(a.files(times)...)
}

// openTemplates looks through the archive of a choice whose members need one, once for all
// inputs of a prediction.
func (p *prediction) openTemplates(ctx context.Context) (err error) {
	if !p.choice.members || !p.choice.coupling.schaake() {
		return nil
	}
	if p.archive == nil {
		if p.archive, err = openArchive(ctx, p.pool, p.o.Publish.Coupling, p.choice); err != nil {
			return err
		}
	}
	p.choice.coupling.archive = p.archive
	return nil
}

// templateTimes are those of the analyses that make the template of a start's members; none
// where members have none.
func (p *prediction) templateTimes(init ensemble.Init, members []ensemble.Member) ([]ensemble.Valid, error) {
	c := &p.choice.coupling
	if c.archive == nil {
		return nil, nil
	}
	return c.archive.dates(init, p.model.Task.Targets[0].Lead, len(c.members(members)))
}

// template reads that of a start's members, where they have one.
func (p *prediction) template(ctx context.Context, init ensemble.Init, members []ensemble.Member) error {
	times, err := p.templateTimes(init, members)
	if err != nil || times == nil {
		return err
	}
	c := &p.choice.coupling
	c.fields, err = c.archive.read(ctx, p.destination(), times)
	return err
}
