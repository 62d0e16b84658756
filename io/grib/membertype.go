package grib

import "github.com/ensemble-weather/ensemble/ensemble"

// MemberType is how a member was made: code table 4.6 of edition 2 plus 1; 0 if the
// message does not state it.
type MemberType uint8

// The types by which members of one number differ.
const (
	HighResolutionControl MemberType = 1
	LowResolutionControl  MemberType = 2
	NegativePerturbation  MemberType = 3
	PositivePerturbation  MemberType = 4
)

// memberTypeNames names code table 4.6 (type of ensemble forecast).
//
// Source: FM 92 GRIB2, code table 4.6.
var memberTypeNames = map[MemberType]string{HighResolutionControl: "unperturbed high-resolution control", LowResolutionControl: "unperturbed low-resolution control",
	NegativePerturbation: "negative perturbation", PositivePerturbation: "positive perturbation", 5: "multi-model forecast", 7: "perturbation"}

// String names the type; "" for others.
func (t MemberType) String() string { return memberTypeNames[t] }

// centreNCEP is the originating centre whose local section of edition 1 begins with
// the application in octet 41.
const centreNCEP = 7

// memberNCEP reads the ensemble extension of NCEP in section 1 of edition 1. ok is
// false if the section has none.
//
// Source: NCEP Office Note 388, GRIB 1, Appendix C (PDS extensions for ensemble
// products): octet 41 application, 42 type, 43 number, 44 product, 46 probability.
func memberNCEP(o Octets) (m Member, p ensemble.Product, ok bool) {
	const ensembleApplication = 1
	if len(o) < 44 || o.U1(41) != ensembleApplication {
		return m, p, false
	}
	m.Known = true
	number, product := o.U1(43), o.U1(44)
	switch kind := o.U1(42); {
	case o.U1(46) != 0:
		return m, ensemble.OtherProduct, true
	case kind == 1: // number 1 is the high-resolution control, 2 the low-resolution one
		m.InEnsemble, m.Type = true, HighResolutionControl
		if number == 2 {
			m.Type = LowResolutionControl
		}
	case kind == 2 || kind == 3:
		m.InEnsemble, m.ID, m.Type = true, number, MemberType(kind+1)
	case product == 1 || product == 2:
		p = ensemble.EnsembleMean
	case product == 11:
		p = ensemble.Spread
	default:
		p = ensemble.OtherProduct
	}
	return m, p, true
}
