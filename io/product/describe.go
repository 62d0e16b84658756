package product

import "github.com/ensemble-weather/ensemble/ensemble"

// Description is what files state about the fields that differ only in lead and level.
type Description struct {
	Name         string // of the variable with this field only, as in CDOProfile: t2m_quantile_0p1
	StandardName string // of CF; "" for probabilities
	LongName     string // "2 metre temperature, post-processed quantiles"
	Unit         string
	CellMethods  string // of CF; "" for none
}

// Describe returns the description of a field. ok is false for an unknown Kind.
func (f Field) Describe() (d Description, ok bool) {
	s, ok := statisticOf(f.Kind)
	if !ok {
		return d, false
	}
	v := f.variable()
	return Description{Name: f.standaloneName(v), StandardName: s.standardName(v), LongName: f.longName(v, s), Unit: f.unit(s, v),
		CellMethods: cellMethods(&stack{stat: s, fields: []Field{f}}, f.Period)}, true
}

// KindOf returns the kind of a field that was read from a published file; "" for a field of another kind.
func KindOf(e ensemble.Entry) Kind {
	raw := e.Kind != nil && e.Basis == ensemble.RawMembers
	switch e.Product {
	case ensemble.EnsembleMean:
		if raw {
			return RawMean
		}
		return Mean
	case ensemble.Spread:
		switch {
		case raw:
			return RawSpread
		case e.Kind != nil && e.Basis == ensemble.FullEnsemble:
			return EnsembleSpread
		}
		return Spread
	case ensemble.Quantile:
		return Quantile
	case ensemble.Probability:
		return Probability
	case ensemble.MemberField:
		if e.Member != ensemble.NoMember {
			return Member
		}
	}
	return ""
}
