package config

import (
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// Coupling is the section coupling: how calibrated members are drawn from the calibrated
// distribution (ensemble copula coupling or Schaake shuffle).
type Coupling struct {
	Method   string        `key:"method"`
	Levels   string        `key:"levels"`
	Count    int           `key:"count"` // members of the Schaake shuffle or of a network with noise; 0: as many as are input
	Template []Path        `key:"template"`
	Window   time.Duration `key:"window"`
}

// Coupling methods, and the quantile levels of members m = 1 … M.
//
// Source: Schefzik, Thorarinsdottir & Gneiting 2013, doi:10.1214/13-STS443 (ECC); Clark et al.
// 2004, doi:10.1175/1525-7541(2004)005<0243:TSSAMF>2.0.CO;2 (Schaake shuffle).
const (
	QuantileCoupling       = "quantiles"      // ECC-Q
	RandomCoupling         = "random"         // ECC-R
	TransformationCoupling = "transformation" // ECC-T
	SchaakeCoupling        = "schaake"

	MidLevels         = "mid"         // (m−½)/M
	EquidistantLevels = "equidistant" // m/(M+1)
)

// couplingKeys are the rows of Coupling.
var couplingKeys = []schema.Key{
	{Path: "coupling.method", Default: QuantileCoupling, Check: OneOf(QuantileCoupling, RandomCoupling, TransformationCoupling, SchaakeCoupling), Example: SchaakeCoupling,
		Help: "Method of drawing calibrated members. quantiles: equidistant quantiles in the rank order of the raw members (ECC-Q); random: random draws in that order (ECC-R); transformation: quantile mapping of the raw members (ECC-T); schaake: quantiles in the rank order of past analyses, for any number of members."},
	{Path: "coupling.levels", Default: MidLevels, Check: OneOf(MidLevels, EquidistantLevels), Example: EquidistantLevels,
		Help: "Quantile levels of methods quantiles and schaake. mid: (m-1/2)/M, which minimises the CRPS; equidistant: m/(M+1)."},
	{Path: "coupling.count", Check: Between(2, 1000), Example: "50",
		Help: "Number of members of the Schaake shuffle, or of a network with model.head: members and noise in model.encoder.input, which draws new noise after each pass over the raw members. Default: the number of raw members."},
	{Path: "coupling.template", Example: "[analyses/*.nc]",
		Help: "Files of past analyses, the dependence template of the Schaake shuffle: all published variables and levels at the same times of day, on the grid of the forecasts."},
	{Path: "coupling.window", Default: "30d", Check: Above(0), Example: "45d",
		Help: "Largest distance of a template analysis from the calendar day of the forecast."},
}

// checkCoupling checks that each key of coupling is used by the method.
func (c *PredictConfig) checkCoupling(add func(path, what, why, fix string)) {
	p := c.Coupling
	schaake := p.Method == SchaakeCoupling
	if schaake && len(p.Template) == 0 {
		add("coupling.template", "the Schaake shuffle has no template", "it takes the rank order of past analyses", "set coupling.template, or another coupling.method")
	}
	if !schaake && len(p.Template) > 0 {
		add("coupling.template", "coupling.template is not used by coupling.method: "+p.Method, "that method takes the rank order of the raw members", "set coupling.method: schaake, or remove it")
	}
	if (p.Method == RandomCoupling || p.Method == TransformationCoupling) && p.Count > 0 {
		add("coupling.count", fmt.Sprintf("coupling.count is %d with coupling.method: %s", p.Count, p.Method), "that method has one member for each raw member", "set coupling.method: schaake, or remove it")
	}
	if p.Levels != MidLevels && !schaake && p.Method != QuantileCoupling {
		add("coupling.levels", "coupling.levels is not used by coupling.method: "+p.Method, "that method has its own levels", "set coupling.method: quantiles or schaake, or remove it")
	}
}
