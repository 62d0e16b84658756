package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Share says how the layers of a network share parameters.
type Share struct {
	Budget       Percent `key:"budget"` // 0 shares nothing
	Groups       string  `key:"groups"`
	Coefficients string  `key:"coefficients"`
	Templates    int     `key:"templates"`
}

// Percent is a share, 1 being the whole; it may be more.
type Percent float64

var percentText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?%$`)

// ParsePercent reads 50%.
//
// Errors: for a bare number, since 0.5 could be half of a percent.
func ParsePercent(s string) (Percent, error) {
	m := percentText.FindStringSubmatch(s)
	if m == nil {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return 0, fmt.Errorf("a share needs its unit: write %s%%", s)
		}
		return 0, errKind
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, errKind
	}
	return Percent(v / 100), nil
}

// String prints what ParsePercent reads.
func (p Percent) String() string { return strconv.FormatFloat(float64(p)*100, 'g', 12, 64) + "%" }

// shareKeys are the rows of Share.
func shareKeys() []Key {
	return []Key{
		{Path: "model.share.budget", Example: "50%",
			Help: "Parameters that the filters of all convolutions have together, as a share of those of the network itself: layers build their filters in every step from stores that groups of them have. Without it each layer has its own. See docs/compression.md."},
		{Path: "model.share.groups", Default: "shape", Check: OneOf("shape", "one"), Example: "one",
			Help: "Which layers have a store together: those with filters of one shape, while others keep their own; or all in one."},
		{Path: "model.share.coefficients", Default: "free", Check: OneOf("average", "free", "embedding"), Example: "embedding",
			Help: "With which coefficients a layer sums its templates, which are slices of the store: all alike, trained ones, or a trained linear map of a trained vector of the layer."},
		{Path: "model.share.templates", Default: "2", Check: Between(1, 8), Example: "4",
			Help: "Templates of a layer at most; it has as many as its filter fits into the store."},
	}
}

// checkShare: what parameters are shared of, and what is not combined with it.
func (c *TrainConfig) checkShare() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	if c.Model.Share.Budget == 0 {
		if c.text("model.share.budget") != "" {
			add("model.share.budget", "model.share.budget is 0", "filters would have no parameters", "give a share such as 50%, or remove it")
		}
		for _, k := range shareKeys() {
			if k.Default != "" && c.text(k.Path) != k.Default {
				add(k.Path, k.Path+" is given and no parameters are shared", "there is no model.share.budget", "give one such as 50%, or remove "+strings.TrimPrefix(k.Path, "model."))
			}
		}
		return faults
	}
	const path, or = "model.share.budget", ", or remove model.share"
	if c.Prune.Method != NoPruning {
		add(path, "parameters are shared and pruned", "a weight of a store that becomes 0 would be so in many places of many layers", "set prune.method: "+NoPruning+or)
	}
	if c.Model.Method == StagesMethod {
		add(path, "parameters are shared by networks of three stages", "the last of them begins with the weights of another", "set model.method: "+string(JointMethod)+or)
	}
	if c.Model.Pretrained != "" {
		add(path, "parameters are shared, and model.start names weights", "filters of a file are of no store", "remove model.start"+or)
	}
	if c.Model.ChannelsFrom != "" {
		add(path, "parameters are shared, and model.channels_of names a network", "layers without some channels are not like others, and start as parts of theirs", "remove model.channels_of"+or)
	}
	return faults
}
