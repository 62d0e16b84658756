package task

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/regrid"
)

// Interpolation says how fields come from their grids to one. The zero value refuses
// fields on other grids.
type Interpolation struct {
	Method   regrid.Method `json:"method"`
	MinValid float64       `json:"min_valid,omitempty"` // 0 means regrid.DefaultMinValid
}

// String names the method and the share of valid weights that it asks for.
func (p Interpolation) String() string {
	return fmt.Sprintf("%s, %g valid", p.Method, cmp.Or(p.MinValid, regrid.DefaultMinValid))
}

// IsEnabled says whether fields may be interpolated.
func (p Interpolation) IsEnabled() bool { return p.Method != "" }
