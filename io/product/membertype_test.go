package product

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Member 0 is the control in GRIB, unless the ensemble has none.
func TestTypeOfMember(t *testing.T) {
	for _, c := range []struct {
		m       ensemble.Member
		control string
		want    int64
	}{{0, ensemble.IncludeControl, 1}, {1, ensemble.IncludeControl, 3}, {0, ensemble.NoControl, 3}, {1, ensemble.NoControl, 3}, {0, "", 1}} {
		if got := typeOfMember(c.m, c.control); got != c.want {
			t.Errorf("member %s, control %q: type %d, want %d", c.m, c.control, got, c.want)
		}
	}
}
