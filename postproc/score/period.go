package score

// AllPeriods is the Period.Origin of all periods together.
const AllPeriods = "all"

// Period is the skill of a system relative to a reference on one target, in one period of initialisations or in all
// of them: the test period of an origin of an experiment, or a year, season or month of a verification. Scores of an
// initialisation are means over the seeds.
type Period struct {
	Variant   string `json:"variant"` // of an experiment; "" of a verification
	Origin    string `json:"origin"`  // begin of the period; AllPeriods: of all
	From      string `json:"from"`    // first and last initialisation, RFC 3339
	To        string `json:"to"`
	System    string `json:"system"`
	Score     string `json:"score"` // ID of its CRPS
	Reference string `json:"reference"`
	Variable  string `json:"variable"`
	Level     string `json:"level"`
	Lead      string `json:"lead"`
	Unit      string `json:"unit"`
	N         int    `json:"n"` // initialisations

	Value          Number `json:"value"` // CRPS
	SD             Number `json:"sd"`    // over seeds; null for one seed
	ReferenceValue Number `json:"reference_value"`
	SkillScore     Number `json:"skill_score"`
	CILow          Number `json:"ci_low"` // of the skill score
	CIHigh         Number `json:"ci_high"`
}

// Trend is the change per year of the skill score of a variant relative to a reference, over all periods.
type Trend struct {
	Variant   string `json:"variant"`
	System    string `json:"system"`
	Reference string `json:"reference"`
	Variable  string `json:"variable"`
	Level     string `json:"level"`
	Lead      string `json:"lead"`
	PerYear   Number `json:"per_year"` // null: less than two years
	CILow     Number `json:"ci_low"`
	CIHigh    Number `json:"ci_high"`
}
