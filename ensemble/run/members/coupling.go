package members

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/ecc"
)

// Coupling is the method by which calibrated members of an initialisation are made.
type Coupling struct {
	config.Coupling
	Archive *Archive            // past analyses; nil except for the Schaake shuffle
	Fields  map[int][][]float32 // template by target, on the model's grid
}

// Without describes the times that were removed from the archive as empty; "" if there are none.
func (a *Archive) Without() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.Empty) == 0 {
		return ""
	}
	return fmt.Sprintf("%s of coupling.template without any value, not used: %s", humanise.Count(len(a.Empty), "time"), humanise.List(humanise.Strings(a.Empty)))
}

// Schaake reports whether members follow the order of past analyses.
func (c *Coupling) Schaake() bool { return c.Method == config.SchaakeCoupling }

// Description describes the method, for file attributes.
func (c *Coupling) Description() string {
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

// Renumbers reports whether calibrated members have other numbers than the used ones: those of the Schaake
// shuffle, and those drawn by a network with noise.
func (c *Coupling) Renumbers() bool { return c.Schaake() || c.Count > 0 }

// Members returns the numbers of the calibrated members that the used ones give: the used ones, or, if
// they are renumbered, 1 to Count, or as many as there are used ones.
func (c *Coupling) Members(used []ensemble.Member) []ensemble.Member {
	if !c.Renumbers() {
		return used
	}
	out := make([]ensemble.Member, cmp.Or(c.Count, len(used)))
	for i := range out {
		out[i] = ensemble.Member(i + 1)
	}
	return out
}

// Couple makes the calibrated members of a target at the points of a grid. At each point the M quantiles of
// the predicted distribution at the configured levels, or M random draws from it, are arranged in the rank
// order of the template's members, of which equal ones are put in an order that is drawn at each point:
//
//	x'(m) = q(rank of template member m)
//
// With ECC-T each template member is transformed instead: its level in a normal distribution fitted to the
// members becomes the level of the quantile.
//
// Shape: template and result [member][point]; parameters [parameter][point].
// Missing: NaN parameters or template values give NaN.
func (c *Coupling) Couple(draws ecc.Draws, template [][]float32, family *dist.Family, parameters model.ParameterFields) ([][]float32, error) {
	par := make([]float64, len(parameters))
	at := func(point int) []float64 { return parameters.At(par, point) }
	quantile := func(point int, level float64) float64 { return family.Quantile(at(point), level) }
	switch c.Method {
	case config.RandomCoupling:
		return ecc.Couple(template, ecc.Random(len(template), draws), quantile)
	case config.TransformationCoupling:
		return ecc.Couple(template, ecc.Transformation(draws), quantile)
	}
	levels := ecc.MidLevels(len(template))
	if c.Levels == config.EquidistantLevels {
		levels = ecc.Levels(len(template))
	}
	quantiles := map[float64]func(par []float64) float64{}
	for _, l := range levels {
		quantiles[l] = family.QuantileFunc(l)
	}
	return ecc.CoupleQuantiles(template, levels, draws, func(point int, level float64) float64 { return quantiles[level](at(point)) })
}

// Draws are the random numbers of a field of members. They follow from initialisation, lead,
// variable, level and point only, so a prediction and its verification draw the same.
func Draws(init ensemble.Init, f *product.Field, grid *ensemble.Grid) ecc.Draws {
	return ecc.FieldDraws(init, f.Lead, f.Variable, f.Level, grid)
}

// Archive is the archive of past analyses for the Schaake shuffle.
type Archive struct {
	In     *fio.Input       // open input; the owner closes it
	Window time.Duration    // largest distance in the season
	Fields []ArchivedTarget // targets
	// Times are the times, ascending, at which all fields have an analysis; for later leads at the corresponding
	// later times.
	Times []ensemble.Valid
	Empty []ensemble.Valid // times removed from Times, as an analysis there has no value

	mu   sync.Mutex // guards Times, Empty and read: the next initialisation is prepared while one is written
	read []template // the templates that were read last
}

// template are the analyses of some times, by target.
type template struct {
	times  []ensemble.Valid
	fields map[int][][]float32
}

// keptTemplates bounds the memory of Archive: those of an initialisation and of the next.
const keptTemplates = 2

// ArchivedTarget is one target of a model in an archive.
type ArchivedTarget struct {
	Target   int // index of the model's target
	Variable string
	Level    ensemble.Level
	Offset   time.Duration // lead relative to the first target lead

	Statistic ensemble.TimeStatistic // of the target
}

// First returns the time of the first target lead in the trajectory that has this target at a given time.
// validAt is the inverse.
func (f ArchivedTarget) First(at ensemble.Valid) ensemble.Valid {
	return ensemble.ValidAt(at.Add(-f.Offset))
}

// validAt returns the time of this target in a trajectory whose first target lead is at a given time.
func (f ArchivedTarget) validAt(first ensemble.Valid) ensemble.Valid {
	return ensemble.ValidAt(first.Add(f.Offset))
}

// Dates selects the analyses that form the template of one initialisation's members: before the
// initialisation, at the time of day and within Window of the season of its first valid time, evenly spaced
// among those available. Members at later leads use the analyses that follow, so that each member is a
// trajectory.
//
// Errors: exit 66 if there are fewer than members.
func (a *Archive) Dates(init ensemble.Init, lead ensemble.Lead, members int) ([]ensemble.Valid, error) {
	valid := init.Valid(lead)
	var fit []ensemble.Valid
	for _, t := range a.Times {
		if a.last(t).Before(init.Time) && t.Time.Truncate(time.Minute).Sub(valid.Time.Truncate(time.Minute))%(24*time.Hour) == 0 && seasonalDistance(t.Time, valid.Time) <= a.Window {
			fit = append(fit, t)
		}
	}
	if len(fit) < members {
		return nil, &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("%d analyses for a template of %s", len(fit), humanise.Count(members, "member")), At: input.FileList(a.In.Files()),
			Why: fmt.Sprintf("initialisation %s: analyses before it, at %s, within %g days of its season; the archive has %s with values at any time", init, valid.UTC().Format("15:04Z"), a.Window.Hours()/24, humanise.Count(len(a.Times), "analysis time")),
			Fix: "add analyses to coupling.template, widen coupling.window, or lower coupling.count"}
	}
	out := make([]ensemble.Valid, members)
	for m := range out {
		out[m] = fit[(2*m+1)*len(fit)/(2*members)]
	}
	return out, nil
}

// seasonalDistance is the distance of two times within the year, at most half a year. A year
// has 365.25 days, so the distance of one day in two years is up to 18 hours.
func seasonalDistance(a, b time.Time) time.Duration {
	const year = 8766 * time.Hour
	d := a.Sub(b).Abs() % year
	return min(d, year-d)
}

// last returns the last time of the trajectory that starts at a time.
func (a *Archive) last(first ensemble.Valid) ensemble.Valid {
	last := first
	for _, f := range a.Fields {
		if t := f.validAt(first); t.After(last.Time) {
			last = t
		}
	}
	return last
}

// Files lists the files that contain the trajectories starting at some times. They are in the
// order of the catalogue, each once.
func (a *Archive) Files(times []ensemble.Valid) []string {
	all := map[ensemble.Valid]bool{}
	for _, f := range a.Fields {
		for _, t := range times {
			all[f.validAt(t)] = true
		}
	}
	var out []string
	for _, e := range a.In.Catalogue().Entries {
		if all[e.Valid()] && !slices.Contains(out, e.File) {
			out = append(out, e.File)
		}
	}
	return out
}

// Template selects the analyses of an initialisation's template, as Dates, and reads them, by target. Times at
// which an analysis has no value are removed from the archive and replaced.
//
// Shape: [target][member][point] of to.
// Errors: as Dates, input.SelectAnalyses and its Read; exit 65 if a file has changed.
func (a *Archive) Template(ctx context.Context, to input.Destination, init ensemble.Init, lead ensemble.Lead, members int) ([]ensemble.Valid, map[int][][]float32, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		times, err := a.Dates(init, lead, members)
		if err != nil {
			return nil, nil, err
		}
		if k := slices.IndexFunc(a.read, func(t template) bool { return slices.Equal(t.times, times) }); k >= 0 {
			return times, a.read[k].fields, nil
		}
		fields, empty, err := a.readTimes(ctx, to, times)
		if err != nil {
			return nil, nil, err
		}
		if len(empty) == 0 {
			a.read = append(a.read, template{times, fields})
			a.read = a.read[max(0, len(a.read)-keptTemplates):]
			return times, fields, nil
		}
		a.Times = slices.DeleteFunc(a.Times, func(t ensemble.Valid) bool { return empty[t] })
		for t := range empty {
			a.Empty = append(a.Empty, t)
		}
	}
}

// readTimes reads the trajectories that start at some times, and finds those with a field without any value.
//
// Shape: [target][time][point].
func (a *Archive) readTimes(ctx context.Context, to input.Destination, times []ensemble.Valid) (map[int][][]float32, map[ensemble.Valid]bool, error) {
	out, empty := map[int][][]float32{}, map[ensemble.Valid]bool{}
	for _, f := range a.Fields {
		own := make([]ensemble.Valid, len(times))
		for i, t := range times {
			own[i] = f.validAt(t)
		}
		s, err := input.SelectAnalyses(a.In, input.AnalysisRequest{Variables: []string{f.Variable}, Levels: []ensemble.Level{f.Level}, Valids: own,
			Statistics: map[string]ensemble.TimeStatistic{f.Variable: f.Statistic}}, to)
		if err != nil {
			return nil, nil, err
		}
		all, _, err := s.Read(ctx, own, nil)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range s.Empty {
			empty[f.First(e.Valid())] = true
		}
		for _, analysis := range all {
			out[f.Target] = append(out[f.Target], analysis.Field(0, 0))
		}
	}
	return out, empty, a.In.VerifyUnchanged(a.Files(times)...)
}
