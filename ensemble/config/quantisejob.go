package config

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// QuantiseJob is the configuration of `ensemble quantise`.
type QuantiseJob struct {
	Version     int         `key:"version"`
	RunDir      Path        `key:"from"`
	Calibration Calibration `key:"calibration"`
	InputLayers bool        `key:"input"`
	Keep        []string    `key:"keep"`
}

// Calibration says from what scales of int8 are found.
type Calibration struct {
	Inits        int     `key:"starts"`
	Method       string  `key:"method"`
	ClipFraction float64 `key:"share"`
}

// QuantiseMethods say where values of a point are cut off; those of engine/quantise, the
// default first.
var QuantiseMethods = []string{"least_error", "max", "percentile"}

// QuantiseSchema describes quantise.yaml.
var QuantiseSchema = newSchema[QuantiseJob]("quantise", []Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "from", Required: true, Example: "runs/a",
		Help: "Folder of the finished training whose networks are quantised. Its training starts are what they are calibrated on."},
	{Path: "calibration.starts", Default: "16", Check: Between(0, 1e6), Example: "32",
		Help: "How many training starts, evenly spread over all of them, are looked at for the largest values. Without any there are no scales, and the job is refused."},
	{Path: "calibration.method", Default: QuantiseMethods[0], Check: OneOf(QuantiseMethods...), Example: "max",
		Help: "Where values of a point of transformed tiles are cut off: least_error where rounding and cutting off together cost least squares, max nowhere, percentile at calibration.share."},
	{Path: "calibration.share", Default: "0.0001", Check: Between(0, 0.5), Example: "0.001",
		Help: "Share of the values that percentile cuts off."},
	{Path: "input", Default: "true", Example: "false",
		Help: "Quantise layers that read the input, alone or in a skip, too: faster, and less of the gains is kept."},
	{Path: "keep", Example: "[dec_conv1a]",
		Help: "Layers that stay as they are, by name. Those without ReLU do in any case."},
})

// QuantiseConfig is a loaded quantise.yaml.
type QuantiseConfig struct {
	QuantiseJob
	*loaded
}

// LoadQuantise reads the configuration of a quantisation.
//
// Errors: exit 64 with all faults at once, each with its place and a remedy.
func LoadQuantise(src Sources) (*QuantiseConfig, error) {
	e, err := load(QuantiseSchema, src)
	if err != nil {
		return nil, err
	}
	c := &QuantiseConfig{loaded: e}
	e.fill(&c.QuantiseJob)
	var faults []*exit.Error
	if c.Calibration.Inits == 0 {
		faults = append(faults, c.fault("calibration.starts", "int8 without calibration dates", "scales of int8 are those of values that the networks had on training dates", "give calibration.starts, at least 1"))
	}
	if c.Origin("calibration.share").Layer != "default" && c.Calibration.Method != "percentile" {
		faults = append(faults, c.fault("calibration.share", fmt.Sprintf("calibration.share is given to the method %s", c.Calibration.Method), "only percentile cuts off a share", "remove it, or choose calibration.method: percentile"))
	}
	for i, name := range c.Keep {
		if name == "" || slices.Contains(c.Keep[:i], name) {
			faults = append(faults, c.fault("keep", fmt.Sprintf("keep names %q twice, or no layer", name), "each layer is named once", "correct the list"))
		}
	}
	return c, joinFaults(faults)
}
