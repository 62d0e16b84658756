package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Variant is one training of a study: a name, also of its subdirectory, and the configuration keys
// it overrides, key=value.
type Variant struct {
	Name string   `json:"name"`
	Set  []string `json:"set"`
}

// Names of studies, sets of variants of any configuration; each has a command.
const (
	Members  = "members"  // 2 members to all members
	Ablation = "ablation" // one change at a time
	Networks = "networks" // the network baselines of ENS-10, at their published sizes
)

// studyRules lists the variants of studies: keys that differ from the base configuration, and a
// condition on it. The variants of Networks are the baselines of unet3d.Kinds instead. TARGET_LEADS
// and TARGET_LEVELS are replaced by the leads and levels of the targets.
var studyRules = []struct {
	study, name, keys string
	where             func(c *config.TrainConfig) bool
}{
	{Ablation, "target-lead-only", "data.leads=[TARGET_LEADS]", func(c *config.TrainConfig) bool { return len(c.Data.Leads) > len(c.Data.TargetLeads) }},
	{Ablation, "target-levels-only", "data.levels=[TARGET_LEVELS]", func(c *config.TrainConfig) bool { return len(targetLevels(c)) < len(c.Data.Levels) }},
	{Ablation, "global-standardisation", "data.standardise=global", func(c *config.TrainConfig) bool { return c.Data.Standardise == ensemble.LAS }},
	{Ablation, "local-standardisation", "data.standardise=las", func(c *config.TrainConfig) bool { return c.Data.Standardise != ensemble.LAS }},
	{Ablation, "no-location", "model.location=false", func(c *config.TrainConfig) bool { return c.Model.Location }},
	{Ablation, "no-season", "model.season=false", func(c *config.TrainConfig) bool { return c.Model.Season }},
	{Ablation, "loss-mse", "train.loss.kind=mse", usesOtherLoss(config.MSELoss)},
	{Ablation, "loss-l1", "train.loss.kind=l1", usesOtherLoss(config.L1Loss)},
	{Ablation, "loss-ssim", "train.loss.kind=ssim", usesOtherLoss(config.SSIMLoss)},
	{Ablation, "loss-ms-ssim", "train.loss.kind=ms_ssim", usesOtherLoss(config.MSSSIMLoss)},
	{Ablation, "no-spread-loss", "train.loss.spread=0", func(c *config.TrainConfig) bool {
		return c.Model.Head != config.SpreadHead && c.Train.Train.Loss.Spread > 0
	}},
	{Ablation, "spread-loss", "train.loss.spread=1", func(c *config.TrainConfig) bool {
		return c.Model.Head != config.SpreadHead && !(c.Train.Train.Loss.Spread > 0)
	}},
}

// usesOtherLoss selects networks with head spread that are trained with a different loss.
func usesOtherLoss(kind config.Loss) func(*config.TrainConfig) bool {
	return func(c *config.TrainConfig) bool {
		return c.Model.Head == config.SpreadHead && c.Train.Train.Loss.Kind != kind
	}
}

// targetLevels lists the levels with targets.
func targetLevels(c *config.TrainConfig) (levels []string) {
	for _, l := range c.Data.Levels {
		if slices.ContainsFunc(c.Data.Targets, func(t config.Target) bool { return slices.Contains(t.Levels, l) }) {
			levels = append(levels, l.String())
		}
	}
	return levels
}

// Variants returns the variants of a study for a configuration. For the study of members, members
// lists the numbers of members; default: 2 to all.
//
// Errors: those of config.LoadTrain; exit 64 for impossible numbers of members.
func Variants(study string, src config.Sources, members []int) ([]Variant, error) {
	c, err := config.LoadTrain(src)
	if err != nil {
		return nil, err
	}
	if study == Members {
		if c.Data.Members.Full == 0 {
			return nil, &exit.Error{Code: exit.Usage, What: "the study of members has no number of members", At: "data.members.full",
				Why: "it trains with 2 to data.members.full members", Fix: "set data.members.full to the number of members of the forecasts"}
		}
		return memberVariants(c.Data.Members.Full, members)
	}
	targets := strings.NewReplacer("TARGET_LEADS", task.FormatLeads(c.Data.TargetLeads), "TARGET_LEVELS", strings.Join(targetLevels(c), ","))
	out := []Variant{{Name: "base"}}
	if study == Networks {
		for _, k := range unet3d.Kinds {
			if k.Baseline && k.Name != c.Model.Kind {
				set := []string{"model.kind=" + k.Name, "model.level_filters=" + config.SharedLevelFilters, "model.dropout=0"}
				out = append(out, Variant{k.Name, append(set, strings.Fields(k.PublishedOptions)...)})
			}
		}
	}
	for _, r := range studyRules {
		if r.study == study && r.where(c) {
			set := strings.Fields(r.keys)
			for i := range set {
				set[i] = targets.Replace(set[i])
			}
			out = append(out, Variant{r.name, set})
		}
	}
	return out, nil
}

// memberVariants returns the variants of the study of members.
func memberVariants(full int, counts []int) (out []Variant, err error) {
	if len(counts) == 0 {
		for m := 2; m <= full; m++ {
			counts = append(counts, m)
		}
	}
	for _, m := range slices.Compact(slices.Sorted(slices.Values(counts))) {
		if m < 2 || m > full {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid number of members %d", m), At: "--members",
				Why: fmt.Sprintf("the spread needs 2, and data.members.full is %d", full), Fix: fmt.Sprintf("give numbers from 2 to %d", full)}
		}
		out = append(out, Variant{fmt.Sprintf("members-%02d", m), []string{fmt.Sprintf("data.members.use=%d", m)}})
	}
	return out, nil
}

// ParseVariant parses "NAME key=value key=value …".
//
// Errors: exit 64.
func ParseVariant(text string) (Variant, error) {
	words := strings.Fields(text)
	bad := func(why string) (Variant, error) {
		return Variant{}, &exit.Error{Code: exit.Usage, What: "invalid variant", At: fmt.Sprintf("--variant %q", text), Why: why,
			Fix: `give a name and key=value pairs, such as --variant "wide model.base=32"`}
	}
	if len(words) == 0 {
		return bad("it is empty")
	}
	if !experimentfile.IsName(words[0]) {
		return bad(fmt.Sprintf("%q is not a name of lower-case letters, digits and hyphens", words[0]))
	}
	for _, w := range words[1:] {
		if !strings.Contains(w, "=") {
			return bad(fmt.Sprintf("%q is not key=value", w))
		}
	}
	return Variant{words[0], words[1:]}, nil
}
