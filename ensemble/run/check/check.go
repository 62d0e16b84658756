package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Options are the inputs of [Run].
type Options struct {
	Files  []string    // forecast files; empty: those of Config
	Expect Expectation // what every initialisation must contain
	// Config is a training whose requirements the files must meet, in place of Expect. Without Files its
	// forecasts are checked, and its analyses too.
	Config *config.TrainConfig
	Input  fio.Options // how files are opened
}

// Expectation is what every initialisation must contain. Parts that are nil follow most of the input.
type Expectation struct {
	Members   []ensemble.Member
	Count     int // number of members, whatever their numbers; 0: any
	Leads     []ensemble.Lead
	Levels    []ensemble.Level // levels of variables on several levels
	Variables []string
}

// ParseExpectation parses "members=50+control,steps=0:48:24,variables=t,gh,levels=850hPa". Members are a
// count (with +control numbers from 1 and member 0), or numbers and ranges; steps are first:last:step in
// hours, or leads.
//
// Errors: exit 64.
func ParseExpectation(text string) (e Expectation, err error) {
	values := map[string][]string{}
	key := ""
	for item := range strings.SplitSeq(text, ",") {
		if k, v, ok := strings.Cut(item, "="); ok {
			key, item = strings.TrimSpace(k), v
			if values[key] != nil {
				return e, expectationError("%q is given twice", key)
			}
		}
		if item = strings.TrimSpace(item); key == "" || item == "" {
			return e, expectationError("%q lacks a key or a value", text)
		}
		values[key] = append(values[key], item)
	}
	for key, list := range values {
		switch key {
		case "members":
			err = e.parseMembers(list)
		case "steps":
			e.Leads, err = parseSteps(list)
		case "variables":
			e.Variables = list
		case "levels":
			for _, word := range list {
				l, perr := ensemble.ParseLevel(word)
				if perr != nil {
					return e, expectationError("%v", perr)
				}
				e.Levels = append(e.Levels, l)
			}
		default:
			err = expectationError("unknown key %q: want members, steps, variables or levels", key)
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// expectationError returns the error of an invalid expectation.
func expectationError(format string, args ...any) error {
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf(format, args...), At: "--expect",
		Fix: "write it like members=50+control,steps=0:48:24,variables=t,gh,levels=850hPa,500hPa"}
}

// maxExpanded limits the members and leads that one word expands to.
const maxExpanded = 10_000

// parseMembers parses members as a count, numbers or ranges.
func (e *Expectation) parseMembers(list []string) error {
	for _, word := range list {
		count, control := strings.CutSuffix(word, "+control")
		from, to, isRange := strings.Cut(count, "-")
		a, err := strconv.Atoi(from)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(to)
		}
		switch {
		case err != nil || a < 0 || b < a || b > maxExpanded || control && (isRange || a < 1):
			return expectationError("invalid members %q", word)
		case control:
			a, b = 0, a
		case !isRange && len(list) == 1:
			e.Count = a
			return nil
		}
		for m := a; m <= b; m++ {
			e.Members = append(e.Members, ensemble.Member(m))
		}
	}
	slices.Sort(e.Members)
	e.Members = slices.Compact(e.Members)
	return nil
}

// parseSteps parses leads as numbers of hours, durations or ranges.
func parseSteps(list []string) (out []ensemble.Lead, err error) {
	lead := func(word string) (ensemble.Lead, error) {
		if h, err := strconv.Atoi(word); err == nil && h >= 0 && h <= 24*366*10 {
			return ensemble.Lead(time.Duration(h) * time.Hour), nil
		}
		d, err := config.ParseDuration(word)
		if err != nil {
			return 0, expectationError("invalid step %q", word)
		}
		return ensemble.Lead(d), nil
	}
	for _, word := range list {
		parts := strings.Split(word, ":")
		if len(parts) != 1 && len(parts) != 3 {
			return nil, expectationError("invalid range of steps %q", word)
		}
		var at [3]ensemble.Lead
		for i, p := range parts {
			if at[i], err = lead(p); err != nil {
				return nil, err
			}
		}
		if len(parts) == 1 {
			at[1], at[2] = at[0], 1
		}
		if at[2] <= 0 || at[1] < at[0] || (at[1]-at[0])/at[2] > maxExpanded {
			return nil, expectationError("invalid range of steps %q", word)
		}
		for l := at[0]; l <= at[1]; l += at[2] {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Result is the content of files and its faults.
type Result struct {
	Files     int              `json:"files"`
	Messages  int              `json:"messages"`
	Used      int              `json:"used"`   // messages of which at least one field is used
	Unused    int              `json:"unused"` // messages of which no field was made
	Fields    int              `json:"fields"`
	Variables []Row            `json:"variables"`
	Members   []MemberRow      `json:"members"`
	Leads     []string         `json:"leads"` // columns of Members
	NotFinite []NotFiniteField `json:"not_finite"`
	// NotFiniteFields, FaultCount and WarningCount are the total numbers; the lists contain the first ones.
	NotFiniteFields int           `json:"not_finite_fields"`
	Faults          []input.Fault `json:"faults"` // train and predict refuse the input
	FaultCount      int           `json:"fault_count"`
	Warnings        []input.Fault `json:"tolerated"` // train and predict continue
	WarningCount    int           `json:"tolerated_count"`
}

// Row summarises one variable at all levels, in SI units.
type Row struct {
	Variable string   `json:"variable"`
	Product  string   `json:"product"`
	Unit     string   `json:"unit"`
	Levels   []string `json:"levels"`
	Inits    int      `json:"inits"`
	Fields   int      `json:"fields"`  // number of fields
	Values   int64    `json:"values"`  // number of values
	Missing  int64    `json:"missing"` // missing values
	Infinite int64    `json:"infinite"`
	Min      *float64 `json:"min,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
	Max      *float64 `json:"max,omitempty"`
}

// MemberRow counts the fields of members with equal counts, by lead, over all initialisations.
type MemberRow struct {
	Members string `json:"members"`
	Fields  []int  `json:"fields"` // by lead, as Result.Leads
}

// NotFiniteField counts the values of one field that are not finite.
type NotFiniteField struct {
	File     string `json:"file"`
	Message  int    `json:"message"`
	Variable string `json:"variable"`
	Level    string `json:"level"`
	Member   string `json:"member"`
	Init     string `json:"init"`
	Lead     string `json:"lead"`
	Missing  int    `json:"missing"`
	Infinite int    `json:"infinite"`
	Values   int    `json:"values"`
}

// maxListed limits each list of a Result.
const maxListed = 1000

// Run finds all faults of files, in their inventory and in every value. What train and predict refuse is a
// fault; what they warn about is a warning.
//
// Reads: every field of the files once, and the index of each file.
// Writes: nothing.
// Returns: the inventory, faults and warnings, also together with an error.
//
// Memory: some hundred bytes per field; fields are read one after the other.
// Errors: exit 1 with the result if there are faults; 64 for an invalid expectation; 65 or 66 if nothing of
// the input can be read.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	err = input.RetryIfChanged(func() (err error) {
		r, err = check(ctx, o)
		return err
	}, func() {})
	return r, err
}

// check is Run without the second attempt if a file changes.
func check(ctx context.Context, o Options) (*Result, error) {
	stated := o.Input.Naming
	if o.Config != nil {
		o.Input.Sparse = o.Input.Sparse || o.Config.Data.AllowMissingChunks
		stated = o.Input.Naming.Over(o.Config.Data.Stated())
		o.Input.Naming = stated.In(ensemble.ForecastFiles)
		if l := &o.Input.Members; l.FromName == nil && l.Centres == nil && !l.Percentiles && !l.Unnumbered && !l.Pairs {
			*l = input.LayoutOf(o.Config.Data.Members.MemberLayout)
		}
	}
	files, _, err := input.ArgumentFiles(o.Files)
	if err != nil {
		return nil, err
	}
	var analyses []string
	if o.Config != nil && len(files) == 0 {
		var err error
		if files, err = input.ConfigFiles("data.forecasts", o.Config.Data.Forecasts); err != nil {
			return nil, err
		}
		if len(o.Config.Data.Analyses) > 0 {
			if analyses, err = input.ConfigFiles("data.analyses", o.Config.Data.Analyses); err != nil {
				return nil, err
			}
		}
	}
	forecasts, err := openForCheck(ctx, files, o.Input)
	if err != nil {
		return nil, err
	}
	defer forecasts.in.Close()
	if err := forecasts.checkInventory(ctx, o); err != nil {
		return nil, err
	}
	if o.Config == nil {
		if err := input.CheckNaming(stated, "--", forecasts.in); err != nil {
			return nil, err
		}
	}
	parts := []*inputCheck{forecasts}
	if analyses != nil {
		o.Input.Members, o.Input.Naming = fio.MemberOptions{}, stated.In(ensemble.AnalysisFiles) // analyses are not members
		an, err := openForCheck(ctx, analyses, o.Input)
		if err != nil {
			return nil, err
		}
		defer an.in.Close()
		if err := input.CheckNamingOf(ctx, o.Config, fio.Open, forecasts.in, an.in); err != nil {
			return nil, err
		}
		if err := an.checkAnalyses(ctx, o.Config, forecasts); err != nil {
			return nil, err
		}
		parts = append(parts, an)
	}
	for _, p := range parts {
		if err := p.checkValues(ctx); err != nil {
			return nil, err
		}
	}
	r := result(parts)
	if r.FaultCount == 0 {
		return r, nil
	}
	e := &exit.Error{Code: exit.No, What: humanise.Count(r.FaultCount, "fault") + " in the input", At: input.FileList(slices.Concat(files, analyses)),
		Why: r.Faults[0].What, Fix: cmp.Or(r.Faults[0].Fix, "the result lists them")}
	return r, e
}

// inputCheck is one input and what is known of it.
type inputCheck struct {
	in     *fio.Input
	tally  *input.ValueStats
	faults []input.Fault
	axes   ensemble.Axes // of a training, with the statistics over time of its input
}

// inMessage matches the location of a GRIB message in an error.
var inMessage = regexp.MustCompile(`^(.*), message (\d+), byte (\d+)`)

// openForCheck indexes files; damage is a fault, unless no file can be read.
func openForCheck(ctx context.Context, files []string, o fio.Options) (*inputCheck, error) {
	o.SkipBad, o.SkipFiles = true, true
	in, err := fio.Open(ctx, files, o)
	if err != nil {
		return nil, err
	}
	cat := in.Catalogue()
	if len(cat.Entries) == 0 {
		defer in.Close()
		if err := in.Faults(); err != nil {
			return nil, err
		}
		return nil, input.UnusableError(files, cat, "`ensemble inspect FILE` lists the content of a file")
	}
	c := &inputCheck{in: in, tally: input.NewValueStats(input.FileOrder(cat.Entries))}
	for _, e := range in.Damage() {
		c.damage(e)
	}
	for _, w := range cat.Warnings {
		c.faults = append(c.faults, input.Fault{Kind: input.FaultUnused, What: w})
	}
	c.unused()
	return c, nil
}

// damage adds a fault for a file or message that cannot be read.
func (c *inputCheck) damage(e *exit.Error) {
	f := input.Fault{Kind: input.FaultDamage, Code: e.Code, What: e.What, File: e.At, At: e.At, Why: e.Why, Fix: e.Fix}
	if m := inMessage.FindStringSubmatch(e.At); m != nil {
		f.File = m[1]
		f.Message, _ = strconv.Atoi(m[2])
		if at, err := strconv.ParseInt(m[3], 10, 64); err == nil {
			f.Byte = &at
		}
	}
	c.faults = append(c.faults, f)
}

// unused adds, by reason, the intact messages of which no field was made.
func (c *inputCheck) unused() {
	count := map[string]int{}
	first := map[string]ensemble.Unused{}
	var reasons []string
	for _, u := range c.in.Catalogue().Unused {
		if strings.HasPrefix(u.Reason, "damaged: ") || strings.HasPrefix(u.Reason, "not decodable: ") {
			continue
		}
		if count[u.Reason]++; count[u.Reason] == 1 {
			first[u.Reason], reasons = u, append(reasons, u.Reason)
		}
	}
	slices.Sort(reasons)
	for _, r := range reasons {
		u := first[r]
		f := input.Fault{Kind: input.FaultUnused, What: humanise.Count(count[r], "message") + " not used", Why: r, File: u.File, Message: u.Message, At: u.File, Fields: count[r]}
		if u.Message > 0 {
			f.At = fmt.Sprintf("%s, message %d", u.File, u.Message)
		}
		c.faults = append(c.faults, f)
	}
}

// checkInventory compares the inventory with the expectation, or with the requirements of a training by its rules.
func (c *inputCheck) checkInventory(ctx context.Context, o Options) error {
	cat := c.in.Catalogue()
	at := input.FileList(c.in.Files())
	if o.Config != nil {
		axes, m := setup.ReadAxes(o.Config), o.Config.Data.Members
		_, all, err := input.ChooseMembers(cat.Members(), m.Use.List, m.Use.Count, m.Full, m.Control)
		if exit.CodeOf(err) == exit.Usage {
			return err
		}
		var e *exit.Error
		if errors.As(err, &e) {
			c.faults = append(c.faults, input.Fault{Kind: input.FaultMissing, Code: e.Code, What: e.What, At: e.At, Why: e.Why, Fix: e.Fix})
			all = input.PerturbedAndControl(cat.Members(), m.Control)
		}
		var found []input.Fault
		c.axes, cat, found = input.ChooseStatistics(cat, axes, input.StatisticsOf(o.Config))
		c.faults = append(c.faults, found...)
		b := input.RequirementsOf(o.Config, axes, all)
		entries, _ := input.SelectUnique(cat.Entries, b.Contains, false)
		to, err := input.DestinationOf(ctx, o.Config, fio.Open)
		c.faults = append(c.faults, input.CheckInventory(cat, at, entries, []input.RequiredFields{b}, to)...)
		if err == nil && to.How.IsEnabled() && len(entries) > 0 {
			var grid *ensemble.Grid
			if grid, err = to.Resolve(entries); err == nil {
				err = input.NewGridReader(c.in, grid, to.How).Prepare(entries)
			}
		}
		if errors.As(err, &e) {
			c.faults = append(c.faults, input.Fault{Kind: input.FaultGrid, Code: e.Code, What: e.What, At: e.At, Why: e.Why, Fix: e.Fix})
			return nil
		}
		return err
	}
	e := o.Expect
	c.checkMembers(e)
	member := cat.Select(func(x ensemble.Entry) bool { return x.Product == ensemble.MemberField })
	if e.Variables != nil || e.Levels != nil || e.Leads != nil || e.Members != nil {
		c.faults = append(c.faults, input.CheckOffered(cat, at, input.RequiredFields{Axes: ensemble.Axes{Variables: e.Variables, Levels: e.Levels, Leads: e.Leads}, Members: e.Members})...)
	}
	// Member fields and others are checked separately: analyses have no members and one lead.
	var blocks []input.RequiredFields
	for _, ofMembers := range []bool{true, false} {
		part := ensemble.Catalogue{Entries: slices.DeleteFunc(slices.Clone(member), func(x ensemble.Entry) bool { return (x.Member != ensemble.NoMember) != ofMembers })}
		for _, g := range part.Groups() {
			if e.Variables != nil && !slices.Contains(e.Variables, g.Variable) {
				continue
			}
			blocks = append(blocks, e.requiredFields(g, ofMembers))
		}
	}
	// Files may hold directions that nothing uses.
	isDirection := func(x ensemble.Entry) bool { return x.IsDirection() && !slices.Contains(e.Variables, x.Variable) }
	units := input.UnitFaults(cat.Entries)
	if others := slices.DeleteFunc(slices.Clone(cat.Entries), isDirection); len(others) > 0 {
		units = input.UnitFaults(others)
		for _, f := range input.DirectionFaults(cat.Select(isDirection)) {
			f.Code = exit.OK
			units = append(units, f)
		}
	}
	faults := slices.Concat(input.CentreFaults(member), units, input.CheckMissing(cat, member, blocks, input.EveryInit))
	for _, v := range cat.Variables() {
		faults = append(faults, input.GridFaults(cat.Select(func(x ensemble.Entry) bool { return x.Variable == v }), input.FixGrid)...)
	}
	c.faults = append(c.faults, faults...)
	return nil
}

// requiredFields returns what each initialisation must contain of one variable.
func (e Expectation) requiredFields(g ensemble.Group, ofMembers bool) input.RequiredFields {
	b := input.RequiredFields{Axes: ensemble.Axes{Variables: []string{g.Variable}, Levels: g.Levels, Leads: g.Leads}, Members: g.Members}
	v, known := ensemble.VariableNamed(g.Variable)
	if e.Levels != nil && known && v.OnManyLevels() {
		b.Axes.Levels = e.Levels
	}
	if !ofMembers {
		return b
	}
	if e.Leads != nil {
		b.Axes.Leads = e.Leads
		if known && v.Period != "" { // accumulations start at lead 0
			b.Axes.Leads = slices.DeleteFunc(slices.Clone(e.Leads), func(l ensemble.Lead) bool { return l == 0 })
		}
	}
	if e.Members != nil {
		b.Members = e.Members
	}
	return b
}

// checkMembers checks which members exist.
func (c *inputCheck) checkMembers(e Expectation) {
	cat := c.in.Catalogue()
	m := input.PerturbedAndControl(cat.Members(), "")
	at := input.FileList(c.in.Files())
	switch {
	case e.Count > 0 && len(m) < e.Count:
		c.faults = append(c.faults, input.Fault{Kind: input.FaultMissing, Code: exit.NotYet, What: fmt.Sprintf("the input has %d members, expected are %d", len(m), e.Count), At: at,
			Why: "members " + ensemble.MemberRanges(m), Fix: "add the files of the others"})
		return
	case e.Members != nil || e.Count > 0 || len(m) == 0:
		return
	case len(m) == 1:
		c.faults = append(c.faults, input.Fault{Kind: input.FaultMissing, What: "only member " + m[0].String() + " is in the input", At: at, Why: "one member has no spread"})
		return
	}
	var gap []ensemble.Member
	for i := 1; i < len(m); i++ {
		if m[i]/fio.CentreStride > m[i-1]/fio.CentreStride {
			continue // members of the next centre
		}
		for k := m[i-1] + 1; k < m[i] && len(gap) < maxListed; k++ {
			gap = append(gap, k)
		}
	}
	stated := 0
	for _, x := range cat.Entries {
		stated = max(stated, x.Members)
	}
	switch {
	case gap != nil:
		c.faults = append(c.faults, input.Fault{Kind: input.FaultMissing, What: "member " + ensemble.MemberRanges(gap) + " is missing everywhere", At: at,
			Why: "the input has members " + ensemble.MemberRanges(m)})
	case stated > len(m):
		absent := ""
		if m[0] == 1 {
			absent = ", without member 0, the control"
		}
		c.faults = append(c.faults, input.Fault{Kind: input.FaultMissing, What: fmt.Sprintf("the input has %d members, of %d by its headers%s", len(m), stated, absent), At: at,
			Why: "the input has members " + ensemble.MemberRanges(m)})
	}
}

// checkAnalyses compares the inventory of analyses with the requirements of a training.
func (c *inputCheck) checkAnalyses(ctx context.Context, cfg *config.TrainConfig, forecasts *inputCheck) error {
	axes := forecasts.axes
	entries, _ := input.SelectUnique(forecasts.in.Catalogue().Entries, func(e ensemble.Entry) bool {
		_, _, _, ok := axes.Find(e.Key)
		return ok && e.Product == ensemble.MemberField
	}, false)
	if len(entries) == 0 {
		return nil // reported by the faults of the forecasts
	}
	valids := setup.ValidTimes((&ensemble.Catalogue{Entries: entries}).Inits(), cfg.Data.TargetLeads)
	to, err := input.DestinationOf(ctx, cfg, fio.Open)
	if err == nil {
		to.Grid = cmp.Or(to.Grid, input.MostCommonGrid(entries))
		var r input.AnalysisRequest
		var e *exit.Error
		if r, err = input.AnalysesOf(cfg, axes, valids); errors.As(err, &e) {
			c.faults = append(c.faults, input.Fault{Kind: input.FaultInterval, Code: e.Code, What: e.What, At: e.At, Why: e.Why, Fix: e.Fix})
			return nil
		}
		_, _, found := input.ChooseAnalyses(c.in.Catalogue(), r)
		c.faults = append(c.faults, found...)
		if _, err = input.SplitFaults(found); err != nil {
			return nil
		}
		_, err = input.SelectAnalyses(c.in, r, to)
	}
	var e *exit.Error
	if errors.As(err, &e) {
		c.faults = append(c.faults, input.Fault{Kind: input.FaultMissing, Code: e.Code, What: e.What, At: e.At, Why: e.Why, Fix: e.Fix})
		return nil
	}
	return err
}

// checkValues reads and checks all fields, and those that occur twice.
func (c *inputCheck) checkValues(ctx context.Context) error {
	err := input.ReadEach(ctx, c.in, c.tally.Entries, func(i int, f *ensemble.Field) { c.tally.Add(i, f.Values) }, func(_ int, err error) {
		var e *exit.Error
		if errors.As(err, &e) {
			c.damage(e)
		}
	})
	if err != nil {
		return err
	}
	c.faults = append(c.faults, c.duplicates()...)
	c.faults = append(c.faults, c.tally.Faults()...)
	return nil
}

// duplicates distinguishes repeated fields with equal values (warning) from those that differ (fault).
func (c *inputCheck) duplicates() (faults []input.Fault) {
	at := map[ensemble.Entry]uint64{}
	for i, e := range c.tally.Entries {
		at[e] = c.tally.Fields[i].Hash
	}
	var equal []ensemble.Entry
	for _, same := range c.in.Catalogue().Duplicates() {
		if same[0].Product == ensemble.OtherProduct {
			continue // probabilities of several thresholds share a key
		}
		for _, e := range same[1:] {
			a, b := at[same[0]], at[e]
			switch {
			case a == 0 || b == 0: // could not be decoded
			case a != b || !e.Grid.SameAs(same[0].Grid, input.GridTolerance):
				faults = append(faults, input.ConflictFault(same[0], e))
			default:
				equal = append(equal, e)
			}
		}
	}
	if equal != nil {
		f := input.Fault{Kind: input.FaultDuplicate, What: input.DuplicateWarning(len(equal))[0], Fields: len(equal)}
		faults = append(faults, f.AtEntry(equal[0]))
	}
	return faults
}

// result combines the results of all inputs.
func result(parts []*inputCheck) *Result {
	r := &Result{Variables: []Row{}, Members: []MemberRow{}, Leads: []string{}, NotFinite: []NotFiniteField{}, Faults: []input.Fault{}, Warnings: []input.Fault{}}
	var faults []input.Fault
	for _, p := range parts {
		cat := p.in.Catalogue()
		used := input.UsedMessages(cat)
		r.Files, r.Messages, r.Used, r.Unused = r.Files+len(p.in.Files()), r.Messages+cat.Messages, r.Used+used, r.Unused+cat.Messages-used
		r.Fields += len(cat.Entries)
		r.Variables = append(r.Variables, checkRows(p.tally)...)
		countNotFinite(p.tally, r)
		faults = append(faults, p.faults...)
	}
	r.Members, r.Leads = parts[0].memberTable()
	input.SortFaults(faults)
	for _, f := range faults {
		list, n := &r.Faults, &r.FaultCount
		if f.Code == exit.OK {
			list, n = &r.Warnings, &r.WarningCount
		}
		if *n++; *n <= maxListed {
			*list = append(*list, f)
		}
	}
	return r
}

// checkRows sums the statistics by variable and product.
func checkRows(c *input.ValueStats) (rows []Row) {
	at := map[input.FieldGroup]int{}
	sums := map[int]float64{}
	of := map[int][]ensemble.Entry{}
	for i, e := range c.Entries {
		k := input.FieldGroup{Variable: e.Variable, Product: e.Product}
		n, ok := at[k]
		if !ok {
			n = len(rows)
			at[k] = n
			rows = append(rows, Row{Variable: e.Variable, Product: e.Product.String(), Unit: e.Unit})
		}
		r, t := &rows[n], c.Fields[i]
		of[n] = append(of[n], e)
		r.Fields++
		r.Values, r.Missing, r.Infinite = r.Values+int64(t.Points), r.Missing+int64(t.Missing), r.Infinite+int64(t.Infinite)
		if t.Hash == 0 || t.Min > t.Max {
			continue
		}
		sums[n] += t.Sum
		lo, hi := t.Min, t.Max
		if r.Min != nil {
			lo, hi = min(lo, *r.Min), max(hi, *r.Max)
		}
		mean := sums[n] / float64(max(r.Values-r.Missing-r.Infinite, 1))
		r.Min, r.Mean, r.Max = &lo, &mean, &hi
	}
	for n := range rows {
		part := ensemble.Catalogue{Entries: of[n]}
		rows[n].Levels, rows[n].Inits = ensemble.LevelTexts(of[n]), len(part.Inits())
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Variable, b.Variable), cmp.Compare(a.Product, b.Product))
	})
	return rows
}

// countNotFinite lists the fields with values that are not finite.
func countNotFinite(c *input.ValueStats, r *Result) {
	for i, t := range c.Fields {
		if t.Missing+t.Infinite == 0 {
			continue
		}
		if r.NotFiniteFields++; r.NotFiniteFields <= maxListed {
			e := c.Entries[i]
			r.NotFinite = append(r.NotFinite, NotFiniteField{File: e.File, Message: e.Message, Variable: e.Variable, Level: e.Level.String(), Member: e.Member.String(),
				Init: e.Init.String(), Lead: e.Lead.String(), Missing: t.Missing, Infinite: t.Infinite, Values: t.Points})
		}
	}
}

// memberTable counts the fields of members by lead.
func (c *inputCheck) memberTable() (rows []MemberRow, columns []string) {
	cat := c.in.Catalogue()
	leads := cat.Leads()
	count := map[ensemble.Member][]int{}
	for _, e := range cat.Entries {
		if e.Product != ensemble.MemberField {
			continue
		}
		if count[e.Member] == nil {
			count[e.Member] = make([]int, len(leads))
		}
		at, _ := slices.BinarySearch(leads, e.Lead)
		count[e.Member][at]++
	}
	alike := map[string][]ensemble.Member{}
	var order []string
	for _, m := range cat.Members() {
		if count[m] == nil {
			continue
		}
		k := fmt.Sprint(count[m], m == ensemble.NoMember)
		if alike[k] == nil {
			order = append(order, k)
		}
		alike[k] = append(alike[k], m)
	}
	rows = []MemberRow{}
	for _, k := range order {
		rows = append(rows, MemberRow{ensemble.MemberRanges(alike[k]), count[alike[k][0]]})
	}
	return rows, humanise.Strings(leads)
}
