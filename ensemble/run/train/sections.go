package train

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/answer"
)

// minReportedWait is the share of its time that a training waits for input before its answer says so.
const minReportedWait = 0.05

// Sections are the scores in short, and what was trained.
func (r *Result) Sections() answer.Sections {
	if r.Complete {
		return answer.Sections{{Text: []string{r.RunDir + ": already complete"}}}
	}
	var all answer.Sections
	if r.Scores != nil {
		all = r.Scores.Summary()
	}
	lines := []string{fmt.Sprintf("trained %d steps; the run is in %s: all scores in scores.json, tables and pictures by `ensemble report`", r.Steps, r.RunDir)}
	for _, s := range r.Sparsity {
		lines = append(lines, fmt.Sprint(s))
	}
	if r.Sharing != nil {
		lines = append(lines, fmt.Sprint(r.Sharing))
	}
	if in := r.Input; in.Share > minReportedWait || in.FileSystem.Reads > 0 {
		waited := fmt.Sprintf("steps waited for input for %.2g %% of their time", 100*in.Share)
		if in.FileSystem.Reads > 0 {
			waited += fmt.Sprintf("; starts came from memory %d times, from the disk cache %d times and from the store %d times (%.3g GB)",
				in.Memory.Reads, in.DiskCache.Reads, in.FileSystem.Reads, float64(in.FileSystem.Bytes)/1e9)
		}
		lines = append(lines, waited)
	}
	return append(all, answer.Section{Text: lines})
}
