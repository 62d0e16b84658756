package notebooks

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/version"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Prediction contains the paths of the published products of one initialisation time.
type Prediction struct {
	Init    Init
	Outputs []string // paths of the NetCDF files, one per lead time
	run     *Run
	lead    *ensemble.Lead // lead time of the fields; nil without the option Lead
	err     error
}

// Err returns the error of a prediction that MustPredict could not make in a declaration, or nil. The other methods
// return or store this error.
func (p *Prediction) Err() error { return p.err }

func (p *Prediction) setErr(err error) { p.err = err }

// Predict computes the prediction for one initialisation time and publishes the mean, the spread
// and the products of the options. Existing products of the same run are reused. Accepts
// CalibratedMembers, Event, Lead and Quantiles.
//
// Errors: those of the Init; 64 for products and lead times that the model does not have, 65 and
// 66 for the files, 69 if the decoding program is not installed, 73 and 74 for the folder.
func (r *Run) Predict(c Init, opts ...Option) (*Prediction, error) {
	o, err := applyOptions("Predict", opts, "CalibratedMembers", "Event", "Lead", "Quantiles")
	err = cmp.Or(r.err, c.err, err)
	if err != nil {
		return nil, err
	}
	p, err := r.predict(c, o)
	if err != nil || p.lead == nil {
		return p, err
	}
	var names []string
	for _, f := range p.Outputs {
		names = append(names, filepath.Base(f))
	}
	if !slices.Contains(names, product.NetCDFName(c.Init, *p.lead)) {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the run does not predict lead time %s", *p.lead), At: c.Init.String(), Why: "the products are " + strings.Join(names, ", "), Fix: "choose a lead time of the training"}
	}
	return p, nil
}

func (r *Run) predict(c Init, o options) (*Prediction, error) {
	pub, folder := o.publish, r.Dir+"-products"
	slices.Sort(pub.Quantiles)
	pub.Quantiles = slices.Compact(pub.Quantiles)
	if n := len(pub.Quantiles); n > 0 && !(pub.Quantiles[0] > 0 && pub.Quantiles[n-1] < 1) {
		return nil, &exit.Error{Code: exit.Usage, What: "quantiles must be between 0 and 1", At: fmt.Sprint(pub.Quantiles), Fix: "for 10 % write 0.1"}
	}
	if o.members {
		pub.Products = []string{config.MeanProduct, config.SpreadProduct, config.MembersProduct}
		if pub.Quantiles != nil {
			pub.Products = append(pub.Products, config.QuantilesProduct)
		}
		if pub.Probabilities != nil {
			pub.Products = append(pub.Products, config.ProbabilitiesProduct)
		}
	}
	if pub.Quantiles != nil || pub.Probabilities != nil || pub.Products != nil {
		folder += "-" + contentKey(fmt.Sprint(pub.Quantiles, pub.Probabilities, pub.Products))
	}
	p := &Prediction{Init: c, run: r}
	if o.leadGiven {
		p.lead = &o.lead
	}
	po := predict.Options{RunDir: r.Dir, Input: c.Files, Out: folder, Init: c.Init.Time, Publish: pub, Formats: []product.Format{product.NetCDF},
		Command: "notebook", Version: version.String()}
	made, err := runJob(func(ctx context.Context, j job) (*predict.Result, error) {
		po.Progress, po.Warn = j.progress, j.warn
		made, err := predict.Run(ctx, po)
		if exit.CodeOf(err) == exit.CannotWrite { // products of other files or of another version; this folder belongs to the notebook
			po.Overwrite = product.OverwriteAlways
			made, err = predict.Run(ctx, po)
		}
		return made, err
	})
	if err != nil {
		return nil, err
	}
	for _, f := range made.Outputs {
		if filepath.Ext(f) == ".nc" {
			p.Outputs = append(p.Outputs, f)
		}
	}
	return p, nil
}

// MustPredict calls Predict and ends the cell on an error.
func (r *Run) MustPredict(c Init, opts ...Option) *Prediction { return must(r.Predict(c, opts...)) }

// Mean returns the post-processed mean of a variable: "t2m", "t850", "t@850hPa".
func (p *Prediction) Mean(name string) *Field {
	return p.field(name, product.Mean, "post-processed mean", nil)
}

// Spread returns the post-processed standard deviation. For a run without analyses it is the
// estimated spread of the full ensemble.
func (p *Prediction) Spread(name string) *Field {
	f := p.field(name, product.Spread, "post-processed spread", nil)
	if f.err != nil && exit.CodeOf(f.err) == exit.NotYet {
		if e := p.field(name, product.EnsembleSpread, "estimated spread of the full ensemble", nil); e.err == nil {
			return e
		}
	}
	return f
}

// Quantile returns the quantile of a variable for a probability of the option Quantiles.
func (p *Prediction) Quantile(name string, below float64) *Field {
	return p.field(name, product.Quantile, fmt.Sprintf("quantile %g", below), func(k ensemble.Key) bool { return k.QuantileProbability == below })
}

// Probability returns the probability of an event of the option Event.
func (p *Prediction) Probability(question string) *Field {
	q, err := ensemble.ParseVariableEvent(question)
	if err != nil {
		return &Field{err: &exit.Error{Code: exit.Usage, What: err.Error(), At: "Probability", Fix: "write it as " + ensemble.EventForms}}
	}
	return p.field(q.VariableAt.String(), product.Probability, "probability of "+question, nil)
}

// Member returns a calibrated member of a variable. Predict publishes them with the option CalibratedMembers.
//
// Errors, stored in the field: 64 for an invalid name, for a name of several fields and for a number without a member;
// 66 if the products have no members.
func (p *Prediction) Member(number int, name string) *Field {
	at, err := parseVariable(name)
	if err = cmp.Or(p.err, err); err != nil {
		return &Field{err: err}
	}
	var numbers []ensemble.Member
	found, err := runJob(func(ctx context.Context, _ job) ([]*ensemble.Field, error) {
		return readFields(ctx, p.Outputs, fio.Options{}, func(e ensemble.Entry) bool {
			matches := e.Product == ensemble.MemberField && e.Variable == at.variable && (at.level == nil || e.Level == *at.level) && (p.lead == nil || e.Lead == *p.lead)
			if matches && !slices.Contains(numbers, e.Member) {
				numbers = append(numbers, e.Member)
			}
			return matches && e.Member == ensemble.Member(number)
		})
	})
	switch {
	case err != nil:
		return &Field{err: err}
	case numbers == nil:
		return &Field{err: &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("the products have no members of %s", at), At: p.Init.Init.String(), Fix: "predict with the option ens.CalibratedMembers(); choose a target of the training"}}
	case len(found) == 0:
		slices.Sort(numbers)
		return &Field{err: &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no member %d in the products", number), At: p.Init.Init.String(), Why: "the products have members " + ensemble.MemberRanges(numbers),
			Fix: fmt.Sprintf("the nearest is %d", closest(ensemble.Member(number), numbers))}}
	case len(found) > 1:
		return &Field{err: &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s matches several fields", at), At: p.Init.Init.String(), Fix: `select one, for example "t850" and the option ens.Lead("48h") of Predict`}}
	}
	return &Field{Field: found[0], What: fmt.Sprintf("calibrated member %d", number)}
}

// field reads one field of the products.
//
// Errors, stored in the field: 64 for an invalid name and for a name of several fields, 66 if the
// products do not contain the field.
func (p *Prediction) field(name string, kind product.Kind, what string, keep func(ensemble.Key) bool) *Field {
	at, err := parseVariable(name)
	if err = cmp.Or(p.err, err); err != nil {
		return &Field{err: err}
	}
	found, err := runJob(func(ctx context.Context, _ job) ([]verify.ProductField, error) {
		return verify.ReadProducts(ctx, p.Outputs, func(k ensemble.Key, is product.Kind) bool {
			return is == kind && k.Variable == at.variable && (at.level == nil || k.Level == *at.level) && (p.lead == nil || k.Lead == *p.lead) && (keep == nil || keep(k))
		})
	})
	if err != nil {
		return &Field{err: err}
	}
	if len(found) == 1 {
		return &Field{Field: found[0].Field, What: what, percent: kind == product.Probability}
	}
	e := &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("the products have no %s of %s", what, at), At: p.Init.Init.String(),
		Fix: "choose a target and a lead time of the training; quantiles and events are options of Predict"}
	if len(found) > 1 {
		var names []string
		for _, f := range found {
			names = append(names, fmt.Sprintf("%s@%s at %s", f.Key.Variable, f.Key.Level, f.Key.Lead))
		}
		e = &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s matches several fields", at), Why: "the products have " + strings.Join(names, ", "),
			Fix: `select one, for example "t850" and the option ens.Lead("48h") of Predict`}
	}
	return &Field{err: e}
}

// Score verifies the prediction with analyses of its valid times. It uses the analyses of the
// dataset, or the files of the dataset if it was opened without analyses. Accepts Event and
// Metrics.
func (p *Prediction) Score(analyses *Dataset, opts ...Option) *Scores {
	o, err := applyOptions("Score", opts, "Event", "Metrics")
	err = cmp.Or(p.err, analyses.err, err)
	if err != nil {
		return &Scores{err: err}
	}
	return p.run.verify([]*Prediction{p}, analyses, o)
}

// WriteNetCDF copies the products of one lead time to a file.
//
// Errors: 64 for several lead times without the option Lead, 73 and 74 for the file.
func (p *Prediction) WriteNetCDF(path string) error {
	if p.err != nil {
		return p.err
	}
	files := p.Outputs
	if p.lead != nil {
		files = slices.DeleteFunc(slices.Clone(files), func(f string) bool {
			return filepath.Base(f) != product.NetCDFName(p.Init.Init, *p.lead)
		})
	}
	if len(files) != 1 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the prediction has %d files, one per lead time", len(files)), At: p.Init.Init.String(),
			Fix: `select a lead time with the option ens.Lead("48h") of Predict`}
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return exit.ReadError(files[0], err)
	}
	return writeFile(path, text)
}

// MustWriteNetCDF calls WriteNetCDF and ends the cell on an error.
func (p *Prediction) MustWriteNetCDF(path string) { exitOnError(p.WriteNetCDF(path)) }
