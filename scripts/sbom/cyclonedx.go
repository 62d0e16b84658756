package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// bom is a document of CycloneDX.
//
// Source: CycloneDX 1.6 (ECMA-424), JSON schema bom-1.6.
type bom struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber,omitempty"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Scope      string     `json:"scope,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []choice   `json:"licenses,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type choice struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// newBOM returns a list without parts.
func newBOM(version string, at time.Time) *bom {
	var apache choice
	apache.License.ID = "Apache-2.0"
	main := component{Ref: "ensemble", Type: "application", Name: "ensemble", Version: version, Licenses: []choice{apache}}
	return &bom{Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{at.UTC().Format(time.RFC3339), main}, Dependencies: []dependency{{Ref: main.Ref}}}
}

// add adds a part that the list does not have yet, as a dependency of all.
func (b *bom) add(c component) {
	if !slices.ContainsFunc(b.Components, func(o component) bool { return o.Ref == c.Ref }) {
		b.Components = append(b.Components, c)
	}
	if all := &b.Dependencies[0]; !slices.Contains(all.On, c.Ref) {
		all.On = append(all.On, c.Ref)
	}
}

// addProgram adds a program with its digest and its parts.
func (b *bom) addProgram(path, version string, parts []component) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	name := filepath.Base(path)
	c := component{Ref: "program:" + name, Type: "application", Name: name, Version: version, Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	b.add(c)
	own := dependency{Ref: c.Ref}
	for _, p := range parts {
		if !slices.Contains(own.On, p.Ref) {
			own.On = append(own.On, p.Ref)
		}
		if !slices.ContainsFunc(b.Components, func(o component) bool { return o.Ref == p.Ref }) {
			b.Components = append(b.Components, p)
		}
	}
	b.Dependencies = append(b.Dependencies, own)
	return nil
}

// encode returns the document, with a serial number that follows from its content.
//
// Source: RFC 9562, section 5.8 (UUID of version 8).
func (b *bom) encode() ([]byte, error) {
	slices.SortFunc(b.Components, func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	for i := range b.Dependencies {
		slices.Sort(b.Dependencies[i].On)
	}
	b.Serial = ""
	content, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(content)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	b.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	if err := b.check(); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // package URLs have &
	e.SetIndent("", " ")
	if err := e.Encode(b); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

var (
	serial = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	purl   = regexp.MustCompile(`^pkg:[a-z]+/[^@?]+@[^@?]+(\?[^@?]+)?$`)
	digest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// check verifies what the schema demands of the fields that are written, and that each dependency names a part.
func (b *bom) check() error {
	if b.Format != "CycloneDX" || b.Spec != "1.6" || b.Version < 1 || !serial.MatchString(b.Serial) {
		return fmt.Errorf("head %q %q %d %q is not valid", b.Format, b.Spec, b.Version, b.Serial)
	}
	if _, err := time.Parse(time.RFC3339, b.Metadata.Timestamp); err != nil {
		return err
	}
	refs := map[string]bool{}
	for _, c := range append([]component{b.Metadata.Component}, b.Components...) {
		switch {
		case c.Ref == "" || refs[c.Ref]:
			return fmt.Errorf("bom-ref %q is empty or used twice", c.Ref)
		case c.Name == "" || c.Version == "":
			return fmt.Errorf("%s has no name or no version", c.Ref)
		case c.Type != "application" && c.Type != "library":
			return fmt.Errorf("%s has type %q", c.Ref, c.Type)
		case c.Type == "library" && !purl.MatchString(c.PURL):
			return fmt.Errorf("%s has the package URL %q", c.Ref, c.PURL)
		case c.Scope != "" && c.Scope != "required" && c.Scope != "optional":
			return fmt.Errorf("%s has scope %q", c.Ref, c.Scope)
		}
		for _, h := range c.Hashes {
			if h.Algorithm != "SHA-256" || !digest.MatchString(h.Content) {
				return fmt.Errorf("%s has digest %q %q", c.Ref, h.Algorithm, h.Content)
			}
		}
		refs[c.Ref] = true
	}
	for _, d := range b.Dependencies {
		for _, on := range append([]string{d.Ref}, d.On...) {
			if !refs[on] {
				return fmt.Errorf("%s depends on %q, which is not listed", d.Ref, on)
			}
		}
	}
	return nil
}
