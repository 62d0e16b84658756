package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// NetworkKind returns the row of unet3d.Kinds for model.kind.
func (m Model) NetworkKind() *unet3d.Kind { return unet3d.KindByName(m.Kind) }

// kindHelp is the help of model.kind, generated from unet3d.Kinds.
func kindHelp() string {
	parts := make([]string, len(unet3d.Kinds))
	for i, k := range unet3d.Kinds {
		parts[i] = k.Name + ": " + k.Doc
	}
	members := unet3d.KindNames((*unet3d.Kind).UsesAttention)
	return "Network architecture. " + strings.Join(parts, ". ") + ". " + strings.Join(members, ", ") + " support model.head: members only."
}

// kindNamesWhere lists the names of kinds with a property, for the fix of an error.
func kindNamesWhere(has func(*unet3d.Kind) bool) string {
	return strings.Join(unet3d.KindNames(has), " or ")
}

// checkKind checks that the kind of network supports the other keys of model.
func (c *TrainConfig) checkKind() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	d, m, kind := c.Data, c.Model, c.Model.NetworkKind()
	if !kind.AnyLevels && m.LevelFilters != SharedLevelFilters {
		add("model.level_filters", "model.level_filters is not supported by "+m.Kind, "model.level_filters is "+m.LevelFilters+"; it has one filter for all levels",
			"remove it, or set model.kind: "+kindNamesWhere(func(k *unet3d.Kind) bool { return k.AnyLevels }))
	}
	if kind.SingleField && (m.Head != SpreadHead && m.Method != StagesMethod || len(d.Levels) != 1 || len(d.Targets) != 1) {
		add("model.kind", m.Kind+" predicts one spread field", "it has one output on one level",
			"set model.head: spread or model.method: "+string(StagesMethod)+", with one level and one target, or model.kind: "+unet3d.UNetKind.Name)
	}
	if n := kind.BaseMultiple; n > 0 && m.Base%n != 0 {
		add("model.base", fmt.Sprintf("model.base is %d, want a multiple of %d", m.Base, n), kind.BaseReason, fmt.Sprintf("give %d, %d, %d or another multiple", n, 2*n, 3*n))
	}
	for _, need := range kind.RequiredStatistics {
		if !slices.Contains(d.Features, need) && !c.refusesFirst(need) {
			add("data.features", m.Kind+" needs feature "+need, "it has separate inputs for "+strings.Join(kind.RequiredStatistics, " and "), "set data.features: ["+strings.Join(kind.RequiredStatistics, ", ")+"]")
			break
		}
	}
	for _, k := range slices.Concat(recurrentKeys(), axialKeys()) {
		section := strings.Split(k.Path, ".")[1]
		owners := func(k *unet3d.Kind) bool { return k.Section == section }
		if !owners(kind) && c.text(k.Path) != k.Default {
			add(k.Path, k.Path+" is not used by "+m.Kind, "section model."+section+" is for "+kindNamesWhere(owners), "remove it, or set model.kind: "+kindNamesWhere(owners))
		}
	}
	if kind.Section == unet3d.RecurrentSection && m.Recurrent.Stages > m.Stages {
		add("model.recurrent.stages", fmt.Sprintf("model.recurrent.stages is %d, model.stages %d", m.Recurrent.Stages, m.Stages), "", "give at most model.stages")
	}
	return faults
}
