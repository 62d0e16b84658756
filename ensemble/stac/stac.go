// Package stac describes finished products as a static SpatioTemporal Asset Catalog, STAC 1.0.0: a catalogue, a
// collection, a catalogue for each month, and an item for each initialisation with its files as assets.
//
// Documents are made on request, from the list of products, so none has to be kept in step.
package stac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/edr"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Root is the path below which documents are.
const Root = "/stac"

// Paths of documents.
const (
	catalogPath    = Root + "/catalog.json"
	collectionPath = Root + "/products/collection.json"
)

const (
	version      = "1.0.0"
	collectionID = "products"
)

// extensions of items: forecast times, and checksums of files.
var extensions = []string{"https://stac-extensions.github.io/forecast/v0.2.0/schema.json", "https://stac-extensions.github.io/file/v2.1.0/schema.json"}

// Source gives access to finished products.
type Source interface {
	edr.Products
	// Place returns where and when an initialisation has products.
	Place(ctx context.Context, of *published.Init) (edr.Place, error)
}

// object is a JSON object of the standard.
type object = map[string]any

// ErrNotFound is returned for a path without a document.
var ErrNotFound = errors.New("no such document of the catalogue")

var (
	monthPath = regexp.MustCompile(`^` + Root + `/products/([0-9]{4})-([0-9]{2})/catalog\.json$`)
	itemPath  = regexp.MustCompile(`^` + Root + `/products/([0-9]{10}(?:[0-9]{2})?)\.json$`)
)

// Document returns the document at a path, and its media type.
//
// Errors: ErrNotFound; those of the source.
func Document(ctx context.Context, from Source, at string) (text []byte, kind string, err error) {
	kind = "application/json"
	var v object
	switch {
	case at == catalogPath:
		v = catalog()
	case at == collectionPath:
		v, err = collection(ctx, from)
	case monthPath.MatchString(at):
		v, err = month(from, monthPath.FindStringSubmatch(at))
	case itemPath.MatchString(at):
		kind = "application/geo+json"
		v, err = item(ctx, from, itemPath.FindStringSubmatch(at)[1])
	default:
		err = ErrNotFound
	}
	if errors.Is(err, published.ErrNoProducts) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, "", err
	}
	if err := makeRelative(v, at); err != nil {
		return nil, "", err
	}
	text, err = json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), kind, err
}

// makeRelative makes the links and assets of a document relative to its path, as a self-contained catalogue has them: so
// they work behind a proxy of any name, scheme and prefix, and in a copy.
//
// Source: STAC 1.0.0, best practices, use of links.
func makeRelative(document object, at string) error {
	targets, _ := document["links"].([]object)
	if assets, ok := document["assets"].(map[string]object); ok {
		targets = slices.AppendSeq(slices.Clone(targets), maps.Values(assets))
	}
	for _, t := range targets {
		target := t["href"].(string)
		href, err := filepath.Rel(path.Dir(at), target)
		if err != nil {
			return err
		}
		if strings.HasSuffix(target, "/") {
			href += "/"
		}
		t["href"] = "./" + href
	}
	return nil
}

// link is a link of a document, with the path of its target.
func link(rel, href, kind, title string) object {
	return object{"rel": rel, "href": href, "type": kind, "title": title}
}

// rootLink leads to the catalogue.
func rootLink() object {
	return link("root", catalogPath, "application/json", "Ensemble products")
}

// catalog is the document of catalogPath.
//
// Source: STAC 1.0.0, catalog specification.
func catalog() object {
	return object{"type": "Catalog", "stac_version": version, "id": "ensemble", "title": "Ensemble products", "description": "Post-processed ensemble forecasts.",
		"links": []object{rootLink(), link("child", collectionPath, "application/json", "Products by initialisation")}}
}

// collection describes all products, with a link to each month.
//
// Source: STAC 1.0.0, collection specification.
func collection(ctx context.Context, from Source) (object, error) {
	names, err := from.Names()
	if err != nil {
		return nil, err
	}
	links := []object{rootLink(), link("parent", catalogPath, "application/json", "Ensemble products")}
	month := ""
	for _, n := range names {
		if n[:6] == month {
			continue
		}
		if _, err := from.Find(n); err == nil { // the first one of a month that has products
			month = n[:6]
			links = append(links, link("child", monthOf(n), "application/json", n[:4]+"-"+n[4:6]))
		}
	}
	slices.Reverse(names)
	box, begin := [4]float64{-180, -90, 180, 90}, any(nil) // of all the world, if the newest products do not state theirs
	for _, n := range names {
		if of, err := from.Find(n); err == nil {
			begin = of.Time.UTC().Format(time.RFC3339)
			break
		}
	}
	if newest, err := from.Newest(); err == nil {
		if p, err := from.Place(ctx, newest); err == nil {
			box = p.Box
		}
	}
	return object{"type": "Collection", "stac_version": version, "id": collectionID, "title": "Products by initialisation", "license": "proprietary",
		"description": "Post-processed ensemble forecasts: an item for each initialisation, its files as assets.", "keywords": []string{"ensemble forecast", "weather"},
		"extent": object{"spatial": object{"bbox": [][4]float64{box}}, "temporal": object{"interval": [][2]any{{begin, nil}}}},
		"links":  links}, nil
}

// monthOf is the path of the catalogue of the month of an initialisation.
func monthOf(name string) string {
	return Root + "/products/" + name[:4] + "-" + name[4:6] + "/catalog.json"
}

// month lists the initialisations of a month.
func month(from Source, match []string) (object, error) {
	names, err := from.Names()
	if err != nil {
		return nil, err
	}
	id := match[1] + "-" + match[2]
	links := []object{rootLink(), link("parent", collectionPath, "application/json", "Products by initialisation")}
	for _, n := range names {
		if !strings.HasPrefix(n, match[1]+match[2]) {
			continue
		}
		if _, err := from.Find(n); err == nil {
			links = append(links, link("item", itemOf(n), "application/geo+json", n))
		}
	}
	if len(links) == 2 {
		return nil, ErrNotFound
	}
	return object{"type": "Catalog", "stac_version": version, "id": id, "title": id, "description": "Initialisations of " + id + ".", "links": links}, nil
}

// itemOf is the path of an item.
func itemOf(name string) string { return Root + "/products/" + name + ".json" }

// item describes an initialisation. Without readable fields on a grid its place is unknown, which is a null geometry.
//
// Source: STAC 1.0.0, item specification; forecast extension 0.2.0; file extension 2.1.0.
func item(ctx context.Context, from Source, name string) (object, error) {
	of, err := from.Find(name)
	if err != nil {
		return nil, err
	}
	_, leads := of.Manifest.Contents()
	if len(leads) == 0 {
		return nil, ErrNotFound
	}
	last := leads[len(leads)-1]
	init := ensemble.InitAt(of.Time)
	out := object{"type": "Feature", "stac_version": version, "stac_extensions": extensions, "id": name, "collection": collectionID, "geometry": nil,
		"properties": object{"title": "Initialisation " + init.String(), "datetime": nil, "start_datetime": init.Valid(leads[0]).Format(time.RFC3339), "end_datetime": init.Valid(last).Format(time.RFC3339),
			"forecast:reference_datetime": init.Format(time.RFC3339), "forecast:horizon": duration(last), "created": of.Manifest.End.UTC().Format(time.RFC3339), "ensemble:status": of.Manifest.Status},
		"links": []object{rootLink(), link("parent", monthOf(name), "application/json", name[:4]+"-"+name[4:6]), link("collection", collectionPath, "application/json", "Products by initialisation"),
			link("alternate", "/products/"+name+"/", "application/json", "Files")},
		"assets": assets(of, init, leads)}
	if p, err := from.Place(ctx, of); err == nil {
		out["bbox"], out["geometry"] = p.Box, geometry(p.Box)
	}
	return out, nil
}

// duration formats a lead as ISO 8601 does.
func duration(l ensemble.Lead) string {
	d := time.Duration(l)
	if d%time.Hour == 0 {
		return fmt.Sprintf("PT%dH", d/time.Hour)
	}
	return fmt.Sprintf("PT%dM", d/time.Minute)
}

// geometry is a box as GeoJSON, in two parts across the date line.
//
// Source: RFC 7946, section 3.1.9.
func geometry(box [4]float64) object {
	ring := func(west, east float64) [][][2]float64 {
		return [][][2]float64{{{west, box[1]}, {east, box[1]}, {east, box[3]}, {west, box[3]}, {west, box[1]}}}
	}
	if box[0] > box[2] {
		return object{"type": "MultiPolygon", "coordinates": [][][][2]float64{ring(box[0], 180), ring(-180, box[2])}}
	}
	return object{"type": "Polygon", "coordinates": ring(box[0], box[2])}
}

// assets lists the files of an initialisation, and stores as a whole.
func assets(of *published.Init, init ensemble.Init, leads []ensemble.Lead) map[string]object {
	files := map[string]manifest.File{}
	for _, f := range of.Manifest.Outputs {
		files[f.Path] = f
	}
	out := map[string]object{}
	for _, name := range of.Manifest.TopLevelOutputs() {
		a := object{"href": "/products/" + of.Name + "/" + name, "title": name, "type": product.MediaType(name), "roles": []string{"data"}}
		if f, ok := files[name]; ok {
			a["file:size"], a["file:checksum"] = f.Size, multihash(f.SHA256)
		}
		if i := slices.IndexFunc(leads, func(l ensemble.Lead) bool {
			return strings.HasPrefix(name, product.InitName(init)+"_"+product.LeadName(l))
		}); i >= 0 {
			a["forecast:horizon"] = duration(leads[i])
		}
		out[name] = a
	}
	out[manifest.Name] = object{"href": path.Join("/products", of.Name, manifest.Name), "title": "Manifest", "type": "application/json", "roles": []string{"metadata"}}
	return out
}

// multihash is a SHA-256 as the file extension writes it: the code of sha2-256, the length of 32 bytes, and the hash.
//
// Source: https://multiformats.io/multihash, table of codes.
func multihash(sha256 string) string { return "1220" + sha256 }
