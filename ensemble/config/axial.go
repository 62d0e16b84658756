package config

// Axial describes the attention of axial_transformer, whose points attend to each other along leads, levels, latitudes and
// longitudes in turn.
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
