package task

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/regrid"
)

// Interpolation selects how fields are interpolated to one grid. The zero value refuses fields on
// other grids.
type Interpolation struct {
	Method   regrid.Method `json:"method"`
	MinValid float64       `json:"min_valid,omitempty"` // smallest fraction of valid weights; 0 means regrid.DefaultMinValid
}

// String formats method and minimum fraction of valid weights.
func (p Interpolation) String() string {
	return fmt.Sprintf("%s, %g valid", p.Method, cmp.Or(p.MinValid, regrid.DefaultMinValid))
}

// IsEnabled reports whether fields may be interpolated.
func (p Interpolation) IsEnabled() bool { return p.Method != "" }
