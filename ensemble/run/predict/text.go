package predict

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/phrase"
)

// Sections are the files that were published, and how many starts there were.
func (r *Result) Sections() answer.Sections {
	last := fmt.Sprintf("%s, %d of them already complete", phrase.Count(r.Cycles, "start"), r.Already)
	if r.Degraded > 0 {
		last += fmt.Sprintf(", %d degraded", r.Degraded)
	}
	return answer.Sections{{Text: append(append([]string(nil), r.Outputs...), last)}}
}
