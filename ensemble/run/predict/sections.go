package predict

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Sections lists the published files and the number of initialisations.
func (r *Result) Sections() answer.Sections {
	last := fmt.Sprintf("%s, %d of them already complete", humanise.Count(r.Inits, "initialisation"), r.Existing)
	if r.Degraded > 0 {
		last += fmt.Sprintf(", %d degraded", r.Degraded)
	}
	return answer.Sections{{Text: append(append([]string(nil), r.Outputs...), last)}}
}
