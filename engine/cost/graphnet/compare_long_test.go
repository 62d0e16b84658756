//go:build long

package graphnet

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/cost"
)

// run is a step on a setup, by their places in races.
type run struct{ step, setup int }

// runs lists the steps that ran.
func runs(r *cost.Races) (all []run) {
	for k, s := range r.Steps {
		for setup, t := range s.Times {
			if t > 0 {
				all = append(all, run{k, setup})
			}
		}
	}
	return all
}

// kept returns the races of some runs alone.
func kept(r *cost.Races, some []run) *cost.Races {
	out := &cost.Races{Setups: r.Setups, Steps: slices.Clone(r.Steps), Ops: slices.Clone(r.Ops)}
	for i := range out.Ops {
		out.Ops[i].Times = make([]float64, len(r.Setups))
	}
	for i := range out.Steps {
		out.Steps[i].Times = make([]float64, len(r.Setups))
	}
	for _, x := range some {
		out.Steps[x.step].Times[x.setup] = r.Steps[x.step].Times[x.setup]
		for _, o := range r.Steps[x.step].Ops {
			out.Ops[o].Times[x.setup] = r.Ops[o].Times[x.setup]
		}
	}
	return out
}

// predictor predicts the time of each operation of a run.
type predictor func(x run) []float64

// features fits non-negative least squares of the features to races.
func features(r *cost.Races) (predictor, error) {
	m, err := cost.Fit(r, func(cost.Setup) bool { return true })
	return func(x run) (t []float64) {
		for _, o := range r.Steps[x.step].Ops {
			p, _ := m.Time(r.Setups[x.setup], r.Ops[o].Work, r.Ops[o].Values)
			t = append(t, p)
		}
		return t
	}, err
}

// trained trains a network on the runs of races, in units of another predictor; nil: those of NewStep.
func trained(r *cost.Races, c Training, units predictor) predictor {
	step := func(x run) *Step {
		s := StepOf(r, x.step, x.setup)
		if units != nil {
			s.Units = units(x)
		}
		return s
	}
	var steps []*Step
	for _, x := range runs(r) {
		steps = append(steps, step(x))
	}
	n := Train(steps, c)
	return func(x run) []float64 { return n.Predict(step(x)) }
}

// relative returns predicted/measured − 1 of the time of a run, the sum over its operations.
func relative(r *cost.Races, x run, p predictor) float64 {
	var predicted, measured float64
	for i, t := range p(x) {
		predicted += t
		measured += r.Ops[r.Steps[x.step].Ops[i]].Times[x.setup]
	}
	return predicted/measured - 1
}

// candidates are the choices among which inner held-out runs decide.
func candidates() (all []Training) {
	for _, rounds := range []int{0, 2} {
		for _, machine := range []bool{false, true} {
			for _, epochs := range []int{6, 20} {
				all = append(all, Training{Size: Size{32, rounds, machine}, Epochs: epochs, Rate: 0.003, Decay: 0.01, Seed: 1})
			}
		}
	}
	return all
}

// grouping defines which runs are held out together: those with all of some keys. Runs with one of the keys train nothing.
type grouping struct {
	name string
	of   func(r *cost.Races, x run) []string
}

var groupings = []grouping{
	{"setup", func(r *cost.Races, x run) []string { return []string{r.Setups[x.setup].String()} }},
	{"instruction set", func(r *cost.Races, x run) []string { return []string{isa(r, x)} }},
	{"kind of network", func(r *cost.Races, x run) []string { return []string{kind(r, x)} }},
	{"instruction set and kind of network", func(r *cost.Races, x run) []string { return []string{isa(r, x), kind(r, x)} }},
}

// isa is the instruction set of a run, kind the kind of its network.
func isa(r *cost.Races, x run) string  { return r.Setups[x.setup].Machine.ISA }
func kind(r *cost.Races, x run) string { return strings.Fields(r.Steps[x.step].Network)[0] }

// split divides runs into those for training and those that are held out.
func (g grouping) split(r *cost.Races, all []run, keys string) (inside, held []run) {
	for _, x := range all {
		of := g.of(r, x)
		if strings.Join(of, ", ") == keys {
			held = append(held, x)
		} else if !slices.ContainsFunc(of, func(k string) bool { return slices.Contains(strings.Split(keys, ", "), k) }) {
			inside = append(inside, x)
		}
	}
	return inside, held
}

// names lists what is held out in turn.
func (g grouping) names(r *cost.Races, all []run) (names []string) {
	for _, x := range all {
		names = append(names, strings.Join(g.of(r, x), ", "))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// choose returns the candidate with the least mean error of logarithms for inner held-out runs: those of the first name among the runs for
// training.
func (g grouping) choose(r *cost.Races, inside []run, corrects bool) (Training, error) {
	inner, held := g.split(r, inside, g.names(r, inside)[0])
	races := kept(r, inner)
	units, err := unitsOf(races, corrects)
	if err != nil {
		return Training{}, err
	}
	sums := map[Training]float64{}
	for _, c := range candidates() {
		p := trained(races, c, units)
		for _, x := range held {
			sums[c] += math.Abs(math.Log1p(relative(r, x, p)))
		}
	}
	return slices.MinFunc(candidates(), func(a, b Training) int { return cmp.Compare(sums[a], sums[b]) }), nil
}

// unitsOf are those of a network that corrects the features, or else nil.
func unitsOf(r *cost.Races, corrects bool) (predictor, error) {
	if !corrects {
		return nil, nil
	}
	return features(r)
}

// The predictors that are compared.
var predictors = []string{"features", "graph network", "both"}

// errorsOf returns the errors of held-out runs by predictor, and the choices of the networks.
func (g grouping) errorsOf(r *cost.Races, name string) (e [3][]float64, chosen [3]string, err error) {
	inside, held := g.split(r, runs(r), name)
	races := kept(r, inside)
	var all [3]predictor
	if all[0], err = features(races); err != nil {
		return e, chosen, err
	}
	for k, corrects := range []bool{false, true} {
		c, err := g.choose(r, inside, corrects)
		if err != nil {
			return e, chosen, err
		}
		units, err := unitsOf(races, corrects)
		if err != nil {
			return e, chosen, err
		}
		all[k+1] = trained(races, c, units)
		chosen[k+1] = fmt.Sprintf("%v, %d epochs", c.Size, c.Epochs)
	}
	for _, x := range held {
		for k, p := range all {
			e[k] = append(e[k], math.Abs(relative(r, x, p)))
		}
	}
	return e, chosen, nil
}

// TestLongComparison compares the features, a graph network and a network that corrects the features on machines, instruction sets and
// networks that none of them saw. Choices of networks are made on inner held-out runs.
func TestLongComparison(t *testing.T) {
	text, err := os.ReadFile("../races.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := cost.ParseRaces(text)
	if err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, runtime.NumCPU())
	for _, g := range groupings {
		var pooled [3][]float64
		var lock sync.Mutex
		var wait sync.WaitGroup
		for _, name := range g.names(r, runs(r)) {
			wait.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				e, chosen, err := g.errorsOf(r, name)
				lock.Lock()
				defer lock.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				for k, some := range e {
					t.Logf("%s %s left out, %s (%s): %v", g.name, name, predictors[k], chosen[k], quantiles(some))
					pooled[k] = append(pooled[k], some...)
				}
			})
		}
		wait.Wait()
		for k, all := range pooled {
			t.Logf("%s left out, %s: %v", g.name, predictors[k], quantiles(all))
		}
	}
}

// quantiles describes errors.
func quantiles(e []float64) string {
	b := cost.Quantiles(e)
	return fmt.Sprintf("median %.1f %%, 95 %% %.1f %% of %d steps", 100*b.Median, 100*b.P95, b.Steps)
}
