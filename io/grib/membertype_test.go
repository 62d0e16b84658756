package grib

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// TestMemberNCEP reads the octets from 41 of NCEP's section 1 of edition 1.
func TestMemberNCEP(t *testing.T) {
	for _, c := range []struct {
		name    string
		octets  [6]byte // 41 to 46
		want    Member
		product ensemble.Product
	}{
		{"low-resolution control", [6]byte{1, 1, 2, 1}, Member{Known: true, InEnsemble: true, Type: LowResolutionControl}, ensemble.MemberField},
		{"high-resolution control", [6]byte{1, 1, 1, 1}, Member{Known: true, InEnsemble: true, Type: HighResolutionControl}, ensemble.MemberField},
		{"negative 3", [6]byte{1, 2, 3, 1}, Member{Known: true, InEnsemble: true, ID: 3, Type: NegativePerturbation}, ensemble.MemberField},
		{"positive 3", [6]byte{1, 3, 3, 1}, Member{Known: true, InEnsemble: true, ID: 3, Type: PositivePerturbation}, ensemble.MemberField},
		{"mean", [6]byte{1, 5, 1, 1}, Member{Known: true}, ensemble.EnsembleMean},
		{"spread", [6]byte{1, 5, 1, 11}, Member{Known: true}, ensemble.Spread},
		{"cluster", [6]byte{1, 4, 1, 5}, Member{Known: true}, ensemble.OtherProduct},
		{"probability", [6]byte{1, 5, 1, 1, 0, 1}, Member{Known: true}, ensemble.OtherProduct},
	} {
		o := make(Octets, 80)
		copy(o[40:], c.octets[:])
		if m, p, ok := memberNCEP(o); !ok || m != c.want || p != c.product {
			t.Errorf("%s: %+v %s %v, want %+v %s", c.name, m, p, ok, c.want, c.product)
		}
	}
	if _, _, ok := memberNCEP(make(Octets, 80)); ok {
		t.Error("a section without an ensemble extension has a member")
	}
}
