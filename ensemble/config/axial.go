package config

import "github.com/ensemble-weather/ensemble/ensemble/config/schema"

// Axial is the section model.axial of axial_transformer, whose points attend to each other along
// leads, levels, latitudes and longitudes in turn.
type Axial struct {
	Blocks int `key:"blocks"` // number of transformer blocks
	Window int `key:"window"` // points of latitude and longitude, at the coarsest resolution
}

// axialKeys are the rows of Axial.
func axialKeys() []schema.Key {
	return []schema.Key{
		{Path: "model.axial.blocks", Default: "2", Check: Between(1, 100), Example: "4",
			Help: "Number of blocks of axial_transformer; each has attention along leads, levels, latitudes and longitudes."},
		{Path: "model.axial.window", Default: "8", Check: Between(1, 1024), Example: "16",
			Help: "Largest attention window of axial_transformer along latitude and longitude, in points of the resolution after model.stages. Every second block shifts the windows by half their size."},
	}
}
