package predict

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// deviation is a member that does not belong to the ensemble of its initialisation.
type deviation struct {
	reason string
	fault  input.Fault
}

// sameField identifies a field of all members of an initialisation.
type sameField struct {
	init     ensemble.Init
	variable string
	level    ensemble.Level
	lead     ensemble.Lead
}

// deviations finds members with a field on another grid, or of another version of the forecast model, than the same
// field of most members of the initialisation. Grids may differ if they are interpolated. Versions are compared
// within a centre; those of the training are never deviations, as a control may have its own. Of two equally common
// grids or versions that of the training is the right one.
func (d *inputPolicy) deviations(all []ensemble.Entry, to input.Destination) map[ensemble.Init]map[ensemble.Member]deviation {
	all = slices.DeleteFunc(slices.Clone(all), func(e ensemble.Entry) bool { return e.Kind == nil || e.Grid == nil })
	if haveOneKind(all) {
		return nil
	}
	groups := map[sameField][]ensemble.Entry{}
	var order []sameField
	for _, e := range all {
		k := sameField{e.Init, e.Variable, e.Level, e.Lead}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], e)
	}
	out := map[ensemble.Init]map[ensemble.Member]deviation{}
	add := func(e ensemble.Entry, v deviation) {
		if out[e.Init] == nil {
			out[e.Init] = map[ensemble.Member]deviation{}
		}
		if _, known := out[e.Init][e.Member]; !known {
			out[e.Init][e.Member] = v
		}
	}
	for _, k := range order {
		if !to.How.IsEnabled() {
			addOtherGrids(groups[k], to, add)
		}
		d.addOtherVersions(groups[k], add)
	}
	return out
}

// haveOneKind reports whether all fields are on one grid and of one version of one model.
func haveOneKind(all []ensemble.Entry) bool {
	for _, e := range all {
		if e.Grid != all[0].Grid || e.Process != all[0].Process || e.Centre != all[0].Centre {
			return false
		}
	}
	return true
}

// addOtherGrids adds the members whose grid differs from that of most.
func addOtherGrids(group []ensemble.Entry, to input.Destination, add func(ensemble.Entry, deviation)) {
	same := func(a, b ensemble.Entry) bool { return a.Grid == b.Grid || a.Grid.SameAs(b.Grid, input.GridTolerance) }
	most := mostCommon(group, same, func(e ensemble.Entry) bool { return to.Grid != nil && e.Grid.SameAs(to.Grid, input.GridTolerance) })
	for _, e := range group {
		if !same(e, most) {
			add(e, deviation{fmt.Sprintf("its grid is %s, that of the others %s", e.Grid, most.Grid), input.GridMismatchFault(most.File, most.Grid, e.File, e.Grid, to.Fix).AtEntry(e)})
		}
	}
}

// addOtherVersions adds the members that another version of the forecast model made than most of their centre.
func (d *inputPolicy) addOtherVersions(group []ensemble.Entry, add func(ensemble.Entry, deviation)) {
	trained := func(e ensemble.Entry) bool {
		return slices.ContainsFunc(d.origins, func(o ensemble.Origin) bool { return o.Centre == e.Centre && o.Process == e.Process })
	}
	for len(group) > 0 {
		centre := group[0].Centre
		var ofCentre, others []ensemble.Entry
		for _, e := range group {
			if e.Centre == centre {
				ofCentre = append(ofCentre, e)
			} else {
				others = append(others, e)
			}
		}
		group = others
		most := mostCommon(ofCentre, func(a, b ensemble.Entry) bool { return a.Process == b.Process }, trained)
		for _, e := range ofCentre {
			if e.Process == most.Process || e.Process == "" || most.Process == "" || trained(e) {
				continue
			}
			why := fmt.Sprintf("it is of process %s of %s, the others of process %s", e.Process, e.Centre, most.Process)
			add(e, deviation{why, input.Fault{Kind: input.FaultMixed, Code: exit.BadData, What: fmt.Sprintf("member %s is of another version of the forecast model", e.Member), Why: why,
				Fix: "wait for the member of the right version, or continue without it: members.on_missing: degrade"}.AtEntry(e)})
		}
	}
}

// mostCommon returns the first entry of the largest class of equal ones; of several that are as large, a preferred one.
func mostCommon(all []ensemble.Entry, same func(a, b ensemble.Entry) bool, preferred func(ensemble.Entry) bool) ensemble.Entry {
	type class struct {
		first ensemble.Entry
		count int
	}
	var classes []class
	for _, e := range all {
		at := slices.IndexFunc(classes, func(c class) bool { return same(c.first, e) })
		if at < 0 {
			at, classes = len(classes), append(classes, class{first: e})
		}
		classes[at].count++
	}
	best := classes[0]
	for _, c := range classes[1:] {
		if c.count > best.count || c.count == best.count && preferred(c.first) && !preferred(best.first) {
			best = c
		}
	}
	return best.first
}
