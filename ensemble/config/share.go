package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Share is the section model.share: parameter sharing between layers.
type Share struct {
	Budget       Percent `key:"budget"` // 0: no sharing
	Groups       string  `key:"groups"`
	Coefficients string  `key:"coefficients"`
	Templates    int     `key:"templates"`
	// Learned lists the groups of layers of groups: learned, each as names separated by blanks.
	Learned    []string `key:"learned"`
	GroupCount int      `key:"group_count"` // of the groups that a training with softmax coefficients finds
}

// Percent is a fraction written as a percentage; 1 is 100%. It may exceed 1.
type Percent float64

// percentText matches a percentage.
var percentText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?%$`)

// ParsePercent parses 50%.
//
// Errors: a number without %; any other text.
func ParsePercent(s string) (Percent, error) {
	m := percentText.FindStringSubmatch(s)
	if m == nil {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return 0, fmt.Errorf("missing unit: write %s%%", s)
		}
		return 0, schema.ErrKind
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, schema.ErrKind
	}
	return Percent(v / 100), nil
}

// String formats p for ParsePercent.
func (p Percent) String() string { return strconv.FormatFloat(float64(p)*100, 'g', 12, 64) + "%" }

// shareKeys are the rows of Share.
func shareKeys() []schema.Key {
	return []schema.Key{
		{Path: "model.share.budget", Example: "50%",
			Help: "Total number of convolution parameters as a percentage of that of the network without sharing: groups of layers compute their filters from shared parameter stores. Default: no sharing. See docs/compression.md."},
		{Path: "model.share.groups", Default: share.Auto, Check: OneOf(share.Groupings...), Example: "one",
			Help: "Layers that share a store. shape: layers with filters of equal shape; kernel: these, and layers with a shape of their own by the extent of their filters; one: all layers; learned: those of model.share.learned; auto: the first of shape, kernel and one for which the budget suffices."},
		{Path: "model.share.coefficients", Default: "free", Check: OneOf(share.Average, share.Free, share.Embedding, share.Softmax), Example: "embedding",
			Help: "Coefficients with which a layer sums its templates, slices of the store. average: equal; free: trained; embedding: a trained linear map of a trained layer embedding; softmax: trained, positive with sum 1, of templates that all layers have in common, from which a training learns groups of layers."},
		{Path: "model.share.templates", Default: "2", Check: Between(1, 8), Example: "4",
			Help: "Largest number of templates of a layer, limited by how often its filter fits into the store; with softmax coefficients the number of all layers."},
		{Path: "model.share.group_count", Default: "3", Check: Between(2, 100), Example: "4",
			Help: "Number of groups of layers that a training with model.share.coefficients: softmax learns, at most."},
		{Path: "model.share.learned", Example: "[enc_conv1 dec_conv*, enc_conv2a enc_conv2b]",
			Help: "Groups of layers with a store each, for model.share.groups: learned. A group is the names of its layers, separated by blanks; * matches any text. A training with model.share.coefficients: softmax prints them. Other layers keep their filters."},
	}
}

// checkShare checks the budget, and that other settings support parameter sharing.
func (c *TrainConfig) checkShare() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	if c.Model.Share.Budget == 0 {
		if c.text("model.share.budget") != "" {
			add("model.share.budget", "model.share.budget is 0", "filters would have no parameters", "set a percentage such as 50%, or remove it")
		}
		for _, k := range shareKeys() {
			if k.Default != "" && c.text(k.Path) != k.Default {
				add(k.Path, k.Path+" without parameter sharing", "model.share.budget is not set", "set it, for example to 50%, or remove "+strings.TrimPrefix(k.Path, "model."))
			}
		}
		return faults
	}
	h := c.Model.Share
	switch {
	case h.Groups == share.Learned && len(h.Learned) == 0:
		add("model.share.groups", "model.share.groups: learned without groups", "", "set model.share.learned, as a training with model.share.coefficients: softmax prints it")
	case h.Groups != share.Learned && len(h.Learned) > 0:
		add("model.share.learned", "model.share.learned with groups: "+h.Groups, "", "remove it, or set model.share.groups: learned")
	case h.Coefficients == share.Softmax && h.Groups != share.OneGroup:
		add("model.share.coefficients", "coefficients: softmax with groups: "+h.Groups, "groups are learned from coefficients of common templates", "set model.share.groups: one")
	case h.Coefficients != share.Softmax && c.text("model.share.group_count") != "3":
		add("model.share.group_count", "model.share.group_count with coefficients: "+h.Coefficients, "only coefficients: softmax learns groups", "remove it, or set model.share.coefficients: softmax")
	}
	const path, or = "model.share.budget", ", or remove model.share"
	if c.Prune.Method != NoPruning {
		add(path, "parameter sharing with pruning", "a pruned weight of a store would affect many layers", "set prune.method: "+NoPruning+or)
	}
	if c.Model.Method == StagesMethod {
		add(path, "parameter sharing with method "+string(StagesMethod), "its last stage starts from the weights of another network", "set model.method: "+string(JointMethod)+or)
	}
	if c.Model.Pretrained != "" {
		add(path, "parameter sharing with model.pretrained", "the file has filters, not stores", "remove model.pretrained"+or)
	}
	if c.Model.ChannelsFrom != "" {
		add(path, "parameter sharing with model.channels_from", "layers with pruned channels have different shapes", "remove model.channels_from"+or)
	}
	return faults
}
