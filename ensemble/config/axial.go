package config

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// AxialKind is the network whose points attend to each other along leads, levels, latitudes and longitudes in turn.
const AxialKind = "axial_transformer"

// axialHeads is how many heads it has, to which its channels are dealt out.
const axialHeads = 4

// Axial describes it.
type Axial struct {
	Blocks int `key:"blocks"`
	Window int `key:"window"`
}

// axialKeys describe it too.
func axialKeys() []Key {
	return []Key{
		{Path: "model.axial.blocks", Default: "2", Check: Between(1, 100), Example: "4",
			Help: "Blocks of axial_transformer, each with attention along leads, levels, latitudes and longitudes."},
		{Path: "model.axial.window", Default: "8", Check: Between(1, 1024), Example: "16",
			Help: "Points of latitude and of longitude that see each other at a time in axial_transformer, at most, at the resolution that model.stages leaves. Every second block shifts these windows by half of one."},
	}
}

// checkAxial: what is said of axial_transformer must be of it, and its heads divide its channels.
func (c *TrainConfig) checkAxial() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	m := c.Model
	for _, k := range axialKeys() {
		if c.text(k.Path) != k.Default && m.Kind != AxialKind {
			add(k.Path, k.Path+" is given to "+m.Kind, strings.TrimPrefix(k.Path, "model.axial.")+" is of "+AxialKind, "remove it, or set model.kind: "+AxialKind)
		}
	}
	if m.Kind == AxialKind && m.Base%axialHeads != 0 {
		add("model.base", fmt.Sprintf("model.base is %d, no multiple of %d", m.Base, axialHeads), fmt.Sprintf("the channels of %s are dealt out to %d heads", AxialKind, axialHeads), "give a multiple")
	}
	return faults
}
