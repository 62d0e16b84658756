package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// FieldSize is a number of rows and columns of fields.
type FieldSize struct{ Rows, Columns int }

// String formats a size as 24x48; 24 if the columns are not known yet.
func (s FieldSize) String() string {
	if s.Columns == 0 {
		return strconv.Itoa(s.Rows)
	}
	return fmt.Sprintf("%dx%d", s.Rows, s.Columns)
}

// FieldSizes is train.sizes: sizes of fields in training steps before those of whole fields. The zero value has none.
type FieldSizes struct {
	Mixed bool        // chosen by the program
	List  []FieldSize // columns 0: in proportion to the fields
}

// IsEnabled reports whether steps see windows.
func (s FieldSizes) IsEnabled() bool { return s.Mixed || len(s.List) > 0 }

// Words of train.sizes.
const (
	wholeSize  = "whole"
	mixedSizes = "mixed"
)

// parseFieldSizes parses train.sizes.
func parseFieldSizes(n *yaml.Node) (s FieldSizes, err error) {
	if n.Kind != yaml.SequenceNode {
		switch n.Value {
		case wholeSize:
			return s, nil
		case mixedSizes:
			return FieldSizes{Mixed: true}, nil
		}
		return s, schema.ErrKind
	}
	for _, item := range n.Content {
		rows, columns, two := strings.Cut(item.Value, "x")
		var size FieldSize
		if size.Rows, err = strconv.Atoi(rows); err == nil && two {
			size.Columns, err = strconv.Atoi(columns)
		}
		if err != nil || size.Rows < 1 || two && size.Columns < 1 {
			return s, fmt.Errorf("size %q, want rows such as 24, or rows and columns such as 24x48", item.Value)
		}
		if slices.Contains(s.List, size) {
			return s, fmt.Errorf("size %s is listed twice", size)
		}
		s.List = append(s.List, size)
	}
	if len(s.List) == 0 {
		return s, errors.New("empty list of sizes")
	}
	return s, nil
}

// formatFieldSizes formats train.sizes.
func formatFieldSizes(v any) string {
	switch s := v.(FieldSizes); {
	case s.Mixed:
		return mixedSizes
	case len(s.List) > 0:
		return "[" + FormatList(s.List) + "]"
	}
	return wholeSize
}

// fieldSizeKeys are the rows of FieldSizes and of the rules of their steps.
func fieldSizeKeys() []schema.Key {
	return []schema.Key{
		{Path: "train.sizes", Default: wholeSize, Example: "[24, 36]",
			Help: "Sizes of fields in training steps (Mix & Match). whole: all steps see whole fields; mixed: windows of half and three quarters of the rows and columns; or a list of sizes, as rows (24, columns in proportion) or rows and columns (24x48), with that of whole fields if steps should see these too. Each step draws a size and the place of its window. Not for GPUs, and meshes along data only. See docs/training.md."},
		{Path: "train.whole_epochs", Default: "0.25", Check: Between(0, 1), Example: "0.5",
			Help: "Part of train.epochs at the end in which all steps see whole fields, as predictions do, if train.sizes has windows."},
	}
}

// SizeMultiple is the number that divides rows and columns of all windows: networks halve the resolution this often.
func (c *TrainConfig) SizeMultiple() int { return 1 << c.Model.Stages }

// checkSizes checks train.sizes as far as the grid is not needed, and that other settings support it.
func (c *TrainConfig) checkSizes() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	const path, or = "train.sizes", ", or train.sizes: " + wholeSize
	t := c.Train.Train
	if !t.Sizes.IsEnabled() {
		for _, row := range fieldSizeKeys()[1:] {
			if c.text(row.Path) != row.Default {
				add(row.Path, row.Path+" without windows", path+" is "+wholeSize, "set train.sizes: "+mixedSizes+", or remove "+strings.TrimPrefix(row.Path, "train."))
			}
		}
		return faults
	}
	for _, s := range t.Sizes.List {
		if near := s.nearest(c.SizeMultiple()); near != s {
			add(path, fmt.Sprintf("windows of %s points", s), fmt.Sprintf("model.stages: %d halves rows and columns %d times, so that both must be multiples of %d", c.Model.Stages, c.Model.Stages, c.SizeMultiple()),
				fmt.Sprintf("write %s in place of %s", near, s))
		}
	}
	for _, x := range []struct {
		refused        bool
		path, why, fix string
	}{
		{c.Model.Embedding > 0, "model.embedding", "its trained fields are input of the network at each point of the grid", "set model.embedding: 0"},
		{c.Model.Method == StagesMethod, "model.method", "its locally connected layer has filters for each point of the grid", "set model.method: " + string(JointMethod)},
		{c.Model.Head == MembersHead, "model.head", "its maps have values for each point of the grid", "set model.head: " + string(DistributionHead)},
		{c.Data.Members.Minimum > 0, "data.members.minimum", "steps would need a plan for each number of members and size", "remove data.members.minimum"},
		{t.Device != "cpu", "train.device", "maps are moved to the window in the memory of the host", "set train.device: cpu"},
		{t.Pipeline.IsEnabled(), "train.pipeline.stages", "all micro-batches have the same size", "remove train.pipeline"},
		{t.Exchange.IsEnabled(), "train.exchange.system", "groups of ranks would see different sizes in the same step", "set train.exchange.system: " + SynchronousExchange},
		{t.Loss.Kind == MSSSIMLoss || t.Loss.Kind == SSIMLoss, "train.loss.kind", "similarity depends on the size of the field", "set train.loss.kind: " + string(MSELoss)},
	} {
		if x.refused {
			add(x.path, x.path+" with train.sizes", x.why, x.fix+or)
		}
	}
	return faults
}

// nearest is the size with the nearest multiples of n, at least n.
func (s FieldSize) nearest(n int) FieldSize {
	multiple := func(x int) int { return max(n, (x+n/2)/n*n) }
	if s.Columns == 0 {
		return FieldSize{Rows: multiple(s.Rows)}
	}
	return FieldSize{multiple(s.Rows), multiple(s.Columns)}
}
