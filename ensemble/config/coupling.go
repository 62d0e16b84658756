package config

import (
	"fmt"
	"time"
)

// Coupling says how calibrated members are made of the calibrated distribution.
type Coupling struct {
	Method   string        `key:"method"`
	Levels   string        `key:"levels"`
	Count    int           `key:"count"` // of the Schaake shuffle; 0 has as many as were used
	Template []Path        `key:"template"`
	Window   time.Duration `key:"window"`
}

// Methods of coupling, and the levels of those that have them.
const (
	QuantileCoupling       = "quantiles"      // ECC-Q
	RandomCoupling         = "random"         // ECC-R
	TransformationCoupling = "transformation" // ECC-T
	SchaakeCoupling        = "schaake"

	MidLevels         = "mid"         // (m−½)/M
	EquidistantLevels = "equidistant" // m/(M+1)
)

// couplingKeys are the rows of Coupling.
var couplingKeys = []Key{
	{Path: "coupling.method", Default: QuantileCoupling, Check: OneOf(QuantileCoupling, RandomCoupling, TransformationCoupling, SchaakeCoupling), Example: SchaakeCoupling,
		Help: "How calibrated members are made. quantiles: equidistant quantiles in the order of the raw members (ECC-Q); random: random draws in that order (ECC-R); transformation: raw members keep their distances (ECC-T); schaake: quantiles in the order of past analyses, any number of members."},
	{Path: "coupling.levels", Default: MidLevels, Check: OneOf(MidLevels, EquidistantLevels), Example: EquidistantLevels,
		Help: "Levels of the quantiles of quantiles and schaake: mid is (m-1/2)/M, with the least CRPS; equidistant is m/(M+1)."},
	{Path: "coupling.count", Check: Between(2, 1000), Example: "50",
		Help: "Members of the Schaake shuffle. Without it as many as raw members are used."},
	{Path: "coupling.template", Example: "[analyses/*.nc]",
		Help: "Files of past analyses, in whose order the Schaake shuffle puts members: of all variables, levels and the time of day that are published, on the grid of the forecasts."},
	{Path: "coupling.window", Default: "30d", Check: Above(0), Example: "45d",
		Help: "How far from the season of the forecast an analysis may lie, on either side, to be a template."},
}

// checkCoupling applies the rules between keys of coupling.
func (c *PredictConfig) checkCoupling(add func(path, what, why, fix string)) {
	p := c.Coupling
	schaake := p.Method == SchaakeCoupling
	if schaake && len(p.Template) == 0 {
		add("coupling.template", "the Schaake shuffle has no template", "its members are in the order of past analyses", "name their files in coupling.template, or choose another coupling.method")
	}
	if !schaake && len(p.Template) > 0 {
		add("coupling.template", "coupling.template is given with coupling.method: "+p.Method, "members of that method are in the order of the raw members", "set coupling.method: schaake, or remove it")
	}
	if !schaake && p.Count > 0 {
		add("coupling.count", fmt.Sprintf("coupling.count is %d with coupling.method: %s", p.Count, p.Method), "that method makes one member of each raw member", "set coupling.method: schaake, or remove it")
	}
	if p.Levels != MidLevels && !schaake && p.Method != QuantileCoupling {
		add("coupling.levels", "coupling.levels is given with coupling.method: "+p.Method, "that method has levels of its own", "set coupling.method: quantiles or schaake, or remove it")
	}
}
