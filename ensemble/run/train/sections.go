package train

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
)

// minReportedWait is the least fraction of step time spent waiting for input that the answer reports.
const minReportedWait = 0.05

// Sections summarises the scores, the steps and the input for the command's answer.
func (r *Result) Sections() answer.Sections {
	if r.Complete {
		return answer.Sections{{Text: []string{r.RunDir + ": already complete"}}}
	}
	var all answer.Sections
	if r.Scores != nil {
		all = r.Scores.Brief(fmt.Sprintf("all scores: `ensemble report %s`, `ensemble verify --all`", r.RunDir))
	}
	lines := []string{fmt.Sprintf("trained %d steps; run directory %s", r.Steps, r.RunDir)}
	if r.StepCost > 0 && r.StepCost != 1 {
		lines = append(lines, fmt.Sprintf("train.sizes: a step took %.3g of the time of one of whole fields in the mean", r.StepCost))
	}
	for _, s := range r.Sparsity {
		lines = append(lines, fmt.Sprint(s))
	}
	if r.Sharing != nil {
		lines = append(lines, fmt.Sprint(r.Sharing))
		if groups := r.Sharing.Learned; groups != nil {
			lines = append(lines, "learned groups: set model.share.groups: learned and model.share.learned: "+listed(groups))
		}
	}
	if in := r.Input; in.Share > minReportedWait || in.FileSystem.Reads > 0 {
		waited := fmt.Sprintf("steps spent %.2g %% of their time waiting for input", 100*in.Share)
		if in.FileSystem.Reads > 0 {
			waited += fmt.Sprintf("; samples were read %d times from memory, %d times from the disk cache and %d times from the store (%.3g GB)",
				in.Memory.Reads, in.DiskCache.Reads, in.FileSystem.Reads, float64(in.FileSystem.Bytes)/1e9)
		}
		lines = append(lines, waited)
	}
	return append(all, answer.Section{Text: lines})
}

// listed writes groups of names as a value of the configuration.
func listed(groups [][]string) string {
	lines := make([]string, len(groups))
	for i, names := range groups {
		lines[i] = strings.Join(names, " ")
	}
	return "[" + strings.Join(lines, ", ") + "]"
}
