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
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// most is how many starts a list has.
const most = 500

// Listed is a start in the list of products.
type Listed struct {
	Cycle    string    `json:"cycle"`
	Start    time.Time `json:"start"`
	Status   string    `json:"status"`
	Used     int       `json:"members_used"`
	Expected int       `json:"members_expected"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Written  time.Time `json:"written"`
}

// List is the answer to /products/.
type List struct {
	Cycles []Listed `json:"cycles"`
	// Next is the address of those that follow, empty if there are none.
	Next string `json:"next,omitempty"`
}

// Content is the answer to /products/CYCLE/.
type Content struct {
	Listed
	Missing  []ensemble.Member `json:"members_missing"`
	Warnings []string          `json:"warnings"`
	Contents []manifest.File   `json:"contents"`
}

func (c *cycle) listed() Listed {
	l := Listed{c.name, startOf(c.name), c.manifest.Status, len(c.manifest.MembersUsed), c.manifest.MembersExpected, len(c.manifest.Outputs), 0, c.written.UTC()}
	for _, f := range c.manifest.Outputs {
		l.Bytes += f.Size
	}
	return l
}

// cycles lists starts with products, the newest first; those before the start that before= names.
func (h *handler) cycles(w *answer, r *http.Request) {
	names, err := h.tree.names()
	if err != nil {
		h.missing(w, err)
		return
	}
	before := r.URL.Query().Get("before")
	l := List{Cycles: []Listed{}}
	for _, n := range names {
		if cycleName.MatchString(before) && minutes(n) >= minutes(before) {
			continue
		}
		if len(l.Cycles) == most {
			l.Next = "/products/?before=" + l.Cycles[most-1].Cycle
			break
		}
		if c, err := h.tree.cycle(n); err == nil {
			l.Cycles = append(l.Cycles, c.listed())
		}
	}
	if wantsHTML(w, r) {
		h.html(w, r, "cycles", l)
		return
	}
	asJSON(w, r, l)
}

// cycle lists the products of one start.
func (h *handler) cycle(w *answer, r *http.Request, name string) {
	c, err := h.tree.cycle(name)
	if err != nil {
		h.missing(w, err)
		return
	}
	out := Content{Listed: c.listed(), Missing: []ensemble.Member{}, Warnings: c.manifest.Warnings}
	for _, m := range c.manifest.MembersMissing {
		out.Missing = append(out.Missing, m.Member)
	}
	for _, f := range slices.Sorted(maps.Keys(c.files)) {
		out.Contents = append(out.Contents, c.files[f])
	}
	if wantsHTML(w, r) {
		h.html(w, r, "cycle", out)
		return
	}
	asJSON(w, r, out)
}

// Status is the answer to /status.
type Status struct {
	Version string        `json:"version"`
	Ready   bool          `json:"ready"`
	Why     string        `json:"why,omitempty"` // it is not ready
	Model   string        `json:"model_checksum,omitempty"`
	Newest  *Listed       `json:"newest"`                  // with products; null for none
	Starts  []Start       `json:"starts"`                  // of the input
	Lack    string        `json:"input_missing,omitempty"` // why some of the input is not there
	Unread  []UnreadFile  `json:"unread"`
	Aside   []input.Aside `json:"left_aside"` // in folders of the input: no input, the first 100
	Asides  int           `json:"left_aside_count"`
}

// UnreadFile is a file of the input whose start is not known.
type UnreadFile struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

func (h *handler) status(w *answer, r *http.Request) { asJSON(w, r, h.summary()) }

func (s *state) summary() Status {
	why := s.ready()
	out := Status{Version: version.String(), Ready: why == "", Why: why, Starts: []Start{}, Unread: []UnreadFile{}, Aside: []input.Aside{}}
	if c := s.newest(); c != nil {
		l := c.listed()
		out.Newest = &l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model != nil {
		out.Model = s.model.Checksum
	}
	out.Starts = append(out.Starts, s.starts...)
	for _, u := range s.unread {
		out.Unread = append(out.Unread, UnreadFile{u.Path, u.Why})
	}
	out.Lack = s.lack
	out.Aside, out.Asides = append(out.Aside, s.aside...), s.asides
	return out
}

// wantsHTML tells whether a list is for a person; format= says so, else what the browser accepts.
func wantsHTML(w *answer, r *http.Request) bool {
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

// html answers with a list as a page.
func (h *handler) html(w *answer, r *http.Request, name string, data any) {
	var b bytes.Buffer
	if err := listing.ExecuteTemplate(&b, name, data); err != nil {
		h.log.Error("a list cannot be written", "error", err.Error())
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	plain(w, r, "text/html; charset=utf-8", b.Bytes())
}
