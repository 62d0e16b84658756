package edr

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/io/product"
)

// collection is the products of one kind.
type collection struct {
	id    string // as the key products of predict.yaml names them
	kind  product.Kind
	title string
}

// allCollections lists the collections. Parameters of distributions and neighbourhoods are not among them: readers of
// files do not return them as fields.
var allCollections = []*collection{
	{"mean", product.Mean, "Post-processed ensemble mean"},
	{"spread", product.Spread, "Post-processed ensemble spread (standard deviation)"},
	{"ensemble_spread", product.EnsembleSpread, "Estimated spread of the full ensemble (standard deviation)"},
	{"quantiles", product.Quantile, "Quantiles of the post-processed distribution"},
	{"probabilities", product.Probability, "Probabilities of events, from the post-processed distribution"},
	{"members", product.Member, "Calibrated members"},
	{"raw_mean", product.RawMean, "Mean of the members used"},
	{"raw_spread", product.RawSpread, "Spread of the members used (standard deviation)"},
}

// has reports whether an initialisation has products of the collection.
func (c *collection) has(of *published.Init) bool {
	kinds, _ := of.Manifest.Contents()
	return slices.Contains(kinds, c.kind)
}

// path is that of an instance, or of the collection for "".
func (c *collection) path(instance string) string {
	path := Root + "/collections/" + c.id
	if instance != "" {
		path += "/instances/" + instance
	}
	return path
}

// available lists the collections that an initialisation has.
func available(of *published.Init) (out []*collection) {
	for _, c := range allCollections {
		if c.has(of) {
			out = append(out, c)
		}
	}
	return out
}

// ids lists collections.
func ids(all []*collection) string { return list(all, func(c *collection) string { return c.id }) }

// collection returns a collection that the newest initialisation has, or an earlier one may have had.
//
// Errors: an unknown name.
func (s *Service) collection(id string) (*collection, error) {
	for _, c := range allCollections {
		if c.id == id {
			return c, nil
		}
	}
	text := "unknown collection " + clip(id)
	if of, err := s.products.Newest(); err == nil {
		text += "; the newest initialisation has " + ids(available(of))
	}
	return nil, notFound(text)
}

// link is a link of a document. Paths work behind a proxy of any name and scheme.
func link(path, rel, kind, title string) object {
	return object{"href": path, "rel": rel, "type": kind, "title": title}
}

// landingPage is the document of Root.
//
// Source: OGC 19-086r6, requirement /req/core/root-success.
func landingPage() object {
	return object{
		"title":       "Values of ensemble products",
		"description": "Post-processed ensemble forecasts at places, in areas and in boxes, as OGC API - Environmental Data Retrieval.",
		"links": []object{
			link(Root, "self", typeJSON, "This document"),
			link(Root+"/api", "service-desc", typeOpenAPI, "Definition of the interface"),
			link(Root+"/conformance", "conformance", typeJSON, "Conformance classes"),
			link(Root+"/collections", "data", typeJSON, "Collections"),
		},
	}
}

// apiDefinition is the OpenAPI document of the service.
//
//go:embed api.json
var apiDefinition []byte

// conformance lists the conformance classes.
func conformance() object {
	const edr, common = "http://www.opengis.net/spec/ogcapi-edr-1/1.1/conf/", "http://www.opengis.net/spec/ogcapi-common-"
	return object{"conformsTo": []string{common + "1/1.0/conf/core", common + "2/1.0/conf/collections", edr + "core", edr + "collections", edr + "json", edr + "covjson", edr + "oas30"}}
}

// collections lists the collections of the newest initialisation.
func (s *Service) collections(ctx context.Context) (Answer, error) {
	out := []object{}
	of, err := s.products.Newest()
	if err == nil {
		err = s.with(ctx, of, func(f *forecast) error {
			out = out[:0]
			for _, c := range available(of) {
				out = append(out, f.collectionJSON(c, "", of))
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, published.ErrNoProducts) {
		return Answer{}, err
	}
	return asJSON(http.StatusOK, object{"links": []object{link(Root+"/collections", "self", typeJSON, "This document")}, "collections": out}), nil
}

// describe describes a collection, or one instance of it.
func (s *Service) describe(ctx context.Context, c *collection, of *published.Init, isInstance bool) (a Answer, err error) {
	instance := ""
	if isInstance {
		instance = of.Name
	}
	err = s.with(ctx, of, func(f *forecast) error {
		a = asJSON(http.StatusOK, f.collectionJSON(c, instance, of))
		return nil
	})
	return a, err
}

// maxInstances is the largest number of instances in one list.
const maxInstances = 100

// instances lists the initialisations of a collection, the newest first. The parameter before=NAME selects the next page.
func (s *Service) instances(ctx context.Context, c *collection, values url.Values) (Answer, error) {
	names, err := s.products.Names()
	if err != nil {
		return Answer{}, err
	}
	path := c.path("") + "/instances"
	links, out := []object{link(path, "self", typeJSON, "This document")}, []object{}
	before := values.Get("before")
	if i := slices.Index(names, before); i >= 0 {
		names = names[i+1:]
	}
	for _, name := range names {
		of, err := s.products.Find(name)
		if errors.Is(err, published.ErrNoProducts) || err == nil && !c.has(of) {
			continue
		}
		if len(out) == maxInstances {
			links = append(links, link(path+"?before="+out[maxInstances-1]["id"].(string), "next", typeJSON, "Earlier initialisations"))
			break
		}
		if err != nil {
			return Answer{}, err
		}
		described, err := s.instance(ctx, c, of)
		if err != nil {
			return Answer{}, err
		}
		out = append(out, described)
	}
	return asJSON(http.StatusOK, object{"links": links, "instances": out}), nil
}

// instance describes an instance. Its files need not be opened if those of an open initialisation have the same fields on
// the same grid.
func (s *Service) instance(ctx context.Context, c *collection, of *published.Init) (out object, err error) {
	if f := s.alike(of); f != nil {
		defer f.Release()
		return f.collectionJSON(c, of.Name, of), nil
	}
	err = s.with(ctx, of, func(f *forecast) error {
		out = f.collectionJSON(c, of.Name, of)
		return nil
	})
	return out, err
}

// alike returns an open initialisation with the fields and the grid of another; nil: none. The caller calls Release.
func (s *Service) alike(of *published.Init) *forecast {
	f := s.reader.Cached(func(o *published.Init) bool {
		return o.Manifest.Grid == of.Manifest.Grid && slices.Equal(o.Manifest.Fields, of.Manifest.Fields)
	})
	if f == nil {
		return nil
	}
	x := published.Index(f, indexOf)
	if x.grid == nil {
		f.Release()
		return nil
	}
	return &forecast{f, x}
}

// collectionJSON describes a collection, or an instance of it, with the fields of f at the times of an initialisation.
//
// Source: OGC 19-086r6, schema collection.
func (f *forecast) collectionJSON(c *collection, instance string, of *published.Init) object {
	id, title, path := c.id, c.title, c.path(instance)
	if instance != "" {
		id, title = instance, title+", initialisation "+ensemble.InitAt(of.Time).String()
	}
	queries, formats := object{}, []string{coverageJSON, netCDF}
	for _, k := range kinds {
		queries[k.name] = object{"link": object{"href": path + "/" + k.name + "?" + k.where + "={" + k.where + "}", "rel": "data", "templated": true, "variables": object{
			"title": k.name, "query_type": k.name, "output_formats": k.formats, "default_output_format": k.formats[0], "crs_details": []object{{"crs": "CRS84", "wkt": wgs84}}}}}
	}
	links := []object{link(path, "self", typeJSON, "This document")}
	if instance == "" {
		queries["instances"] = object{"link": object{"href": path + "/instances", "rel": "data", "variables": object{"title": "instances", "query_type": "instances"}}}
		links = append(links, link(path+"/instances", "data", typeJSON, "Initialisations"))
	} else {
		links = append(links, link(c.path(""), "collection", typeJSON, "Collection"), link("/products/"+instance+"/", "enclosure", typeJSON, "Files"))
	}
	parameters := object{}
	for _, p := range f.ofCollection(c) {
		parameters[p.Name] = p.describe()
	}
	return object{"id": id, "title": title, "description": title + "; the files of the products have the same values.", "keywords": []string{"ensemble forecast", c.id},
		"links": links, "extent": f.extent(c, of), "data_queries": queries, "crs": []string{crs84}, "output_formats": formats, "parameter_names": parameters}
}

// wgs84 describes CRS84 as OGC 19-086r6 does.
const wgs84 = `GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,AUTHORITY["EPSG","7030"]],AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],UNIT["degree",0.01745329251994328,AUTHORITY["EPSG","9122"]],AUTHORITY["EPSG","4326"]]`

// describe describes a parameter in a collection, where labels are plain texts.
func (p *parameter) describe() object {
	property := object{"label": p.label()}
	if p.StandardName != "" {
		property["id"] = standardNames + p.StandardName + "/"
	}
	return object{"type": "Parameter", "id": p.Name, "label": p.label(), "description": p.description(), "data-type": "float", "observedProperty": property,
		"unit": object{"label": p.Unit, "symbol": object{"value": ucumUnit(p.Unit), "type": ucum}}}
}

// extent describes where, when and at which levels a collection has values.
func (f *forecast) extent(c *collection, of *published.Init) object {
	var times []string
	var levels []float64
	for _, p := range f.ofCollection(c) {
		for _, l := range p.leads {
			times = append(times, of.Time.Add(time.Duration(l)).UTC().Format(time.RFC3339))
		}
		for _, l := range p.levels {
			if z, ok := levelValue(l); ok && l.Kind == ensemble.Pressure && !slices.Contains(levels, z) {
				levels = append(levels, z)
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	out := object{"spatial": object{"bbox": [][4]float64{bbox(f.grid)}, "crs": wgs84}}
	if len(times) > 0 {
		out["temporal"] = object{"interval": [][2]string{{times[0], times[len(times)-1]}}, "values": times, "trs": `TIMECRS["DateTime",TDATUM["Gregorian Calendar"],CS[TemporalDateTime,1],AXIS["Time (T)",future]]`}
	}
	if len(levels) > 0 {
		slices.Sort(levels)
		var texts []string
		for _, z := range levels {
			texts = append(texts, number(z))
		}
		out["vertical"] = object{"interval": [][2]string{{texts[0], texts[len(texts)-1]}}, "values": texts,
			"vrs": `VERTCRS["pressure",VDATUM["mean sea level"],CS[vertical,1],AXIS["pressure (p)",down],UNIT["hPa",100]]`}
	}
	return out
}

// Place describes where and when an initialisation has products.
type Place struct {
	Box         [4]float64 // west, south, east, north in degrees; east is smaller than west across the date line
	First, Last time.Time  // valid times
}

// Place returns where and when an initialisation has products on a grid.
//
// Errors: published.ErrNoProducts; those of reading.
func (s *Service) Place(ctx context.Context, of *published.Init) (p Place, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Time)
	defer cancel()
	_, leads := of.Manifest.Contents()
	if len(leads) == 0 {
		return p, fmt.Errorf("initialisation %s: %w", of.Name, published.ErrNoProducts)
	}
	p.First, p.Last = of.Time.Add(time.Duration(leads[0])), of.Time.Add(time.Duration(leads[len(leads)-1]))
	if f := s.alike(of); f != nil {
		defer f.Release()
		p.Box = bbox(f.grid)
		return p, nil
	}
	err = s.with(ctx, of, func(f *forecast) error { p.Box = bbox(f.grid); return nil })
	return p, err
}
