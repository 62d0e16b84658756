package serve

import (
	"bytes"
	_ "embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// maxListed is the largest number of initialisations on one page of the list.
const maxListed = 500

// InitSummary describes the products of one initialisation in the list of products.
type InitSummary struct {
	Name     string    `json:"name"`
	Init     time.Time `json:"init"`
	Status   string    `json:"status"`
	Used     int       `json:"members_used"`
	Complete int       `json:"members_complete"`
	Expected int       `json:"members_expected"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Written  time.Time `json:"written"`

	Missing []ensemble.Member `json:"members_missing"`
}

// InitList is the JSON response of /products/.
type InitList struct {
	Inits []InitSummary `json:"inits"`
	// Next is the path of the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// InitContents is the JSON response of /products/NAME/.
type InitContents struct {
	InitSummary
	Warnings []string        `json:"warnings"`
	Contents []manifest.File `json:"contents"`
}

// MissingRanges is the text of Missing, such as "3, 7-9".
func (l InitSummary) MissingRanges() string { return ensemble.MemberRanges(l.Missing) }

// listed returns the summary of the products.
func (c *initProducts) listed() InitSummary {
	m := c.manifest
	l := InitSummary{Name: c.name, Init: initOf(c.name), Status: m.Status, Used: len(m.MembersUsed), Complete: m.MembersComplete, Expected: m.MembersExpected, Files: len(m.Outputs), Written: c.written.UTC(), Missing: c.missing()}
	for _, f := range c.manifest.Outputs {
		l.Bytes += f.Size
	}
	return l
}

// listInits lists initialisations with products, the newest first. The query parameter before=NAME
// selects the next page.
func (h *handler) listInits(w *response, r *http.Request) {
	names, err := h.tree.names()
	if err != nil {
		h.notFound(w, err)
		return
	}
	before := r.URL.Query().Get("before")
	l := InitList{Inits: []InitSummary{}}
	for _, n := range names {
		if initNamePattern.MatchString(before) && nameToMinute(n) >= nameToMinute(before) {
			continue
		}
		if len(l.Inits) == maxListed {
			l.Next = "/products/?before=" + l.Inits[maxListed-1].Name
			break
		}
		if c, err := h.tree.find(n); err == nil {
			l.Inits = append(l.Inits, c.listed())
		}
	}
	if acceptsHTML(w, r) {
		h.html(w, r, "inits", l)
		return
	}
	asJSON(w, r, l)
}

// listProducts lists the products of one initialisation.
func (h *handler) listProducts(w *response, r *http.Request, name string) {
	c, err := h.tree.find(name)
	if err != nil {
		h.notFound(w, err)
		return
	}
	out := InitContents{InitSummary: c.listed(), Warnings: c.manifest.Warnings}
	for _, f := range slices.Sorted(maps.Keys(c.files)) {
		out.Contents = append(out.Contents, c.files[f])
	}
	if acceptsHTML(w, r) {
		h.html(w, r, "contents", out)
		return
	}
	asJSON(w, r, out)
}

// statusSchema identifies the meaning of the fields of a Status. Fields may be added under the same schema.
const statusSchema = "ensemble.status/1"

// Status is the JSON response of /status.
type Status struct {
	Schema       string                `json:"schema"` // statusSchema
	Version      string                `json:"version"`
	Ready        bool                  `json:"ready"`
	Why          string                `json:"why,omitempty"` // reason for which it is not ready
	Model        string                `json:"model_checksum,omitempty"`
	Newest       *InitSummary          `json:"newest"`                  // with products, not in the future; null: none
	Future       []string              `json:"future"`                  // initialisations with products that are in the future
	Inits        []InitStatus          `json:"inits"`                   // in the input and in the schedule, the newest first
	MissingInput string                `json:"input_missing,omitempty"` // reason for missing input
	Unreadable   []UnreadableFile      `json:"unreadable_files"`
	Ignored      []input.UnrelatedFile `json:"ignored_files"` // files in input directories that are no input; at most 100
	IgnoredCount int                   `json:"ignored_files_count"`
	Hook         *hook.Status          `json:"hook"` // calls of serve.on_issue; null: none
}

// UnreadableFile is an input file whose initialisation is unknown.
type UnreadableFile struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// status responds with the Status.
func (h *handler) status(w *response, r *http.Request) { asJSON(w, r, h.summary()) }

// summary returns the Status.
func (s *state) summary() Status {
	why := s.notReadyReason()
	out := Status{Schema: statusSchema, Version: version.String(), Ready: why == "", Why: why, Future: append([]string{}, s.future()...), Inits: append([]InitStatus{}, s.statuses()...), Unreadable: []UnreadableFile{}, Ignored: []input.UnrelatedFile{}}
	out.Hook = s.hook.Status()
	if c := s.newest(); c != nil {
		l := c.listed()
		out.Newest = &l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model != nil {
		out.Model = s.model.Checksum
	}
	for _, u := range s.unread {
		out.Unreadable = append(out.Unreadable, UnreadableFile{u.Path, u.Reason})
	}
	out.MissingInput = s.missingInput
	out.Ignored, out.IgnoredCount = append(out.Ignored, s.ignored...), s.ignoredCount
	return out
}

// acceptsHTML reports whether the client wants HTML: by the query parameter format, else by the
// Accept header.
func acceptsHTML(w *response, r *http.Request) bool {
	w.Header().Add("Vary", "Accept")
	switch r.URL.Query().Get("format") {
	case "html":
		return true
	case "json":
		return false
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

//go:embed listing.html
var listingText string

var listing = template.Must(template.New("listing").Parse(listingText))

// html responds with a list as an HTML page.
func (h *handler) html(w *response, r *http.Request, name string, data any) {
	var b bytes.Buffer
	if err := listing.ExecuteTemplate(&b, name, data); err != nil {
		h.log.Error("cannot render a list", "error", err.Error())
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	plain(w, r, "text/html; charset=utf-8", b.Bytes())
}
