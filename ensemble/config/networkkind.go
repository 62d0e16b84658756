package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// NetworkKind is the kind of the network.
func (m Model) NetworkKind() *unet3d.Kind { return unet3d.KindByName(m.Kind) }

// kindHelp describes model.kind by the table of kinds.
func kindHelp() string {
	parts := make([]string, len(unet3d.Kinds))
	for i, k := range unet3d.Kinds {
		parts[i] = k.Name + ": " + k.Doc
	}
	members := unet3d.KindNames((*unet3d.Kind).UsesAttention)
	return "The network. " + strings.Join(parts, ". ") + ". Of these " + strings.Join(members, ", ") + " are for model.head: members only."
}

// kindNamesWhere are the names of kinds that have a property, as a fix has them.
func kindNamesWhere(has func(*unet3d.Kind) bool) string {
	return strings.Join(unet3d.KindNames(has), " or ")
}

// checkKind: what is given of the network must be of its kind.
func (c *TrainConfig) checkKind() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	d, m, kind := c.Data, c.Model, c.Model.NetworkKind()
	if !kind.AnyLevels && m.LevelFilters != SharedLevelFilters {
		add("model.height", "model.height is given and "+m.Kind+" has one filter for all levels", "model.height is "+m.LevelFilters,
			"remove it, or set model.kind: "+kindNamesWhere(func(k *unet3d.Kind) bool { return k.AnyLevels }))
	}
	if kind.SingleField && (m.Head != SpreadHead && m.Method != StagesMethod || len(d.Levels) != 1 || len(d.Targets) != 1) {
		add("model.kind", m.Kind+" predicts one spread field", "it has one output and works on one level",
			"set model.head: spread or model.method: "+string(StagesMethod)+", with one level and one target, or model.kind: "+unet3d.UNetKind.Name)
	}
	if n := kind.BaseMultiple; n > 0 && m.Base%n != 0 {
		add("model.base", fmt.Sprintf("model.base is %d, no multiple of %d", m.Base, n), kind.BaseReason, fmt.Sprintf("give %d, %d, %d or another multiple", n, 2*n, 3*n))
	}
	for _, need := range kind.RequiredStatistics {
		if !slices.Contains(d.Features, need) {
			add("data.features", m.Kind+" lacks "+need, "it reads "+strings.Join(kind.RequiredStatistics, " and ")+" in places of their own", "set data.features: ["+strings.Join(kind.RequiredStatistics, ", ")+"]")
			break
		}
	}
	for _, k := range slices.Concat(recurrentKeys(), axialKeys()) {
		section := strings.Split(k.Path, ".")[1]
		owners := func(k *unet3d.Kind) bool { return k.Section == section }
		if !owners(kind) && c.text(k.Path) != k.Default {
			add(k.Path, k.Path+" is given to "+m.Kind, "model."+section+" is of "+kindNamesWhere(owners), "remove it, or set model.kind: "+kindNamesWhere(owners))
		}
	}
	if kind.Section == unet3d.RecurrentSection && m.Recurrent.Stages > m.Stages {
		add("model.recurrent.stages", fmt.Sprintf("cells in %d of %d stages", m.Recurrent.Stages, m.Stages), "", "give at most model.stages")
	}
	return faults
}
