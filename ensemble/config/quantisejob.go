package config

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// QuantiseJob is quantise.yaml, the configuration of `ensemble quantise`.
type QuantiseJob struct {
	Version     int         `key:"version"`
	RunDir      Path        `key:"run_dir"`
	Calibration Calibration `key:"calibration"`
	InputLayers bool        `key:"input_layers"`
	Weights     string      `key:"weights"`
	Keep        []string    `key:"keep"`
}

// Calibration is the section calibration: the data and the method that determine the int8 scales.
type Calibration struct {
	Inits        int     `key:"inits"`
	Method       string  `key:"method"`
	ClipFraction float64 `key:"clip_fraction"`
}

// QuantiseMethods lists the methods of engine/quantise that choose the clipping threshold, the
// default first.
var QuantiseMethods = []string{"least_error", "max", "percentile"}

// QuantiseWeights lists how weight files store filters that run in int8, the default first.
var QuantiseWeights = []string{"float32", "int8"}

// QuantiseSchema is the schema of quantise.yaml.
var QuantiseSchema = newSchema[QuantiseJob]("quantise", []schema.Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "run_dir", Required: true, Example: "runs/a",
		Help: "Run directory of the model to quantise. Its training data are used for calibration."},
	{Path: "calibration.inits", Default: "16", Check: Between(0, 1e6), Example: "32",
		Help: "Number of training initialisations for calibration, evenly spread; at least 1."},
	{Path: "calibration.method", Default: QuantiseMethods[0], Check: OneOf(QuantiseMethods...), Example: "max",
		Help: "Clipping threshold of each point of the transformed tiles. least_error: smallest mean squared error of rounding and clipping; max: no clipping; percentile: clips calibration.clip_fraction of the values."},
	{Path: "calibration.clip_fraction", Default: "0.0001", Check: Between(0, 0.5), Example: "0.001",
		Help: "Fraction of the values that percentile clips."},
	{Path: "input_layers", Default: "true", Example: "false",
		Help: "Whether layers that read the input, directly or through a skip connection, are quantised too: faster, but less skill is retained."},
	{Path: "weights", Default: QuantiseWeights[0], Check: OneOf(QuantiseWeights...), Example: "int8",
		Help: "How weight files store the filters that run in int8. float32: unchanged; int8: rounded to 8 bits with one scale for each output channel, a quarter of the size and, with a bitmap of zeros, less than a tenth of it at 75 % zeros; may cost skill."},
	{Path: "keep", Example: "[dec_conv1a]",
		Help: "Layers that are not quantised, by name. Layers without ReLU are never quantised."},
})

// QuantiseConfig is a loaded quantise.yaml: its values and their origins.
type QuantiseConfig struct {
	QuantiseJob
	*Loaded
}

// LoadQuantise loads quantise.yaml.
//
// Errors: exit 64 with all faults, each with its position and a fix.
func LoadQuantise(src Sources) (*QuantiseConfig, error) {
	e, err := Load(QuantiseSchema, src)
	if err != nil {
		return nil, err
	}
	c := &QuantiseConfig{Loaded: e}
	e.Fill(&c.QuantiseJob)
	var faults []*exit.Error
	if c.Calibration.Inits == 0 {
		faults = append(faults, c.Fault("calibration.inits", "calibration.inits is 0", "int8 scales are determined from activations on training data", "set calibration.inits to at least 1"))
	}
	if c.Origin("calibration.clip_fraction").Layer != "default" && c.Calibration.Method != "percentile" {
		faults = append(faults, c.Fault("calibration.clip_fraction", fmt.Sprintf("calibration.clip_fraction is not used by method %s", c.Calibration.Method), "only percentile clips a fraction", "remove it, or set calibration.method: percentile"))
	}
	for i, name := range c.Keep {
		if name == "" || slices.Contains(c.Keep[:i], name) {
			faults = append(faults, c.Fault("keep", fmt.Sprintf("empty or duplicate layer %q in keep", name), "", "list each layer once"))
		}
	}
	if err := JoinFaults(faults); err != nil {
		return nil, err
	}
	return c, nil
}
