package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// write writes the files of a folder, by name.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDead: files and anchors that links of a page name and that are missing are reported, and no others. Anchors are those of GitHub.
func TestDead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"README.md":     "# One\n[a](docs/a.md) [b](docs/b.md) [up](../x.md) [c](docs/a.md#two-words) [d](docs/a.md#three) [e](#one) [f](#two) [g](data.txt) [h](more)\n## Further\n",
		"docs/a.md":     "# `A` & ±20 %\n## Two words\n## Other words\n[x](#a--20-) [y](#other-words) [home](../README.md)\n",
		"more/list.txt": "1\n",
		"data.txt":      "1\n",
		"build/left.md": "[dead](nowhere.md)\n",
		"_cells/a.md":   "[dead](nowhere.md)\n",
	})
	out := filepath.Join(dir, "build/site")
	err := build(options{root: dir, out: out, python: testdata.Python(t)})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"'docs/b.md'", "'../x.md'", "'docs/a.md#three'", "'#two'"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not among\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "README.md"); n != 4 {
		t.Errorf("%d links of README.md reported, want 4:\n%v", n, err)
	}
	for _, page := range []string{"a.md", "left.md"} {
		if strings.Contains(err.Error(), "Doc file 'docs/"+page) || strings.Contains(err.Error(), "nowhere") {
			t.Errorf("a link of %s is reported:\n%v", page, err)
		}
	}
	for _, name := range []string{"data.txt", "more/list.txt", "more/index.md"} {
		if _, err := os.Stat(filepath.Join(out+"-src/docs", name)); err != nil {
			t.Error(err)
		}
	}
}

// TestPackagePage: the page of a package has its documentation, declarations and examples.
func TestPackagePage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"engine/x/x.go":            "// Package x adds.\npackage x\n\n// N is a number.\nconst N = 1\n\n// T counts.\ntype T struct{ n int }\n\n// Add returns a sum. See [T].\nfunc (t T) Add(n int) int { return t.n + n }\n",
		"engine/x/x_test.go":       "package x\n\nimport \"fmt\"\n\nfunc ExampleT_Add() {\n\tfmt.Println(T{}.Add(1))\n\t// Output: 1\n}\n",
		"engine/cmd/main.go":       "package main\n",
		"engine/xtest/helper.go":   "package xtest\n",
		"engine/testdata/x.go":     "package broken (\n",
		"engine/_cells/x.go":       "package broken (\n",
		"engine/internal/y/y.go":   "package y\n",
		"engine/onlyfolder/z.text": "",
	})
	s := &sources{root: dir, dir: filepath.Join(dir, "out"), pages: map[string]bool{}}
	if err := s.packages(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"packages/index.md", "packages/engine-x.md"}; !slices.Equal(s.added[0].pages, want) {
		t.Errorf("pages %q, want %q", s.added[0].pages, want)
	}
	page, err := os.ReadFile(filepath.Join(dir, "out/packages/engine-x.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# engine/x\n", "Package x adds.", "const N = 1", "### type T", "### func (T) Add", "func (t T) Add(n int) int\n", "Add returns a sum. See T.", "fmt.Println(T{}.Add(1))", "```text\n1\n```"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
	if strings.Contains(string(page), "return t.n") {
		t.Error("the page shows the body of a function")
	}
}

// walk is a page that loads pages in a frame of the width of a desktop window, and some in one
// of a telephone: all but those of Go packages, of which it looks at one in PACKAGES and asks whether the others are there. It reports links and anchors without target, missing pictures, and text wider
// than the window.
const walk = `<!DOCTYPE html><meta charset="utf-8"><body><script>
const faults = [], ids = {}, links = [];
let seen = 0, skipped = 0, pictures = 0, packages = 0;
async function look(url, width) {
  const f = document.createElement("iframe");
  f.style.cssText = "border:0;height:800px;width:" + width + "px";
  f.src = url;
  await new Promise(done => { f.onload = done; document.body.append(f); });
  const d = f.contentDocument, w = f.contentWindow;
  if (!d.querySelector("main h1") || !d.querySelector("nav")) { faults.push(url + ": no heading"); f.remove(); return; }
  if (d.documentElement.scrollWidth > w.innerWidth) faults.push(url + ": wider than a window of " + width + " points");
  if (d.querySelector("main h1").getBoundingClientRect().top > 200) faults.push(url + ": begins below a window of " + width + " points");
  if (w.getComputedStyle(d.body).fontFamily.includes("Times")) faults.push(url + ": without its style");
  for (const i of d.images) { pictures++; if (!i.complete || !i.naturalWidth) faults.push(url + ": no picture " + i.src); }
  ids[url] = new Set([...d.querySelectorAll("[id]")].map(e => e.id));
  for (const a of d.querySelectorAll("a[href]")) links.push([url, new URL(a.href)]);
  for (const e of d.querySelectorAll("script,link[href],img")) {
    const u = new URL(e.href || e.src, url);
    if (u.protocol !== "data:" && u.origin !== location.origin) faults.push(url + ": fetches " + u);
  }
  f.remove();
  seen++;
}
async function all() {
  const queue = ["/index.html", "/broken/index.html"].map(p => location.origin + p), known = new Set(queue), other = {};
  while (queue.length) {
    const url = queue.shift();
    if (url.includes("/packages/") && packages++ % PACKAGES) {
      skipped++;
      if (!(await fetch(url, {method: "HEAD"})).ok) faults.push(url + ": is not there");
      continue;
    }
    await look(url, 1200);
    for (const [from, u] of links.splice(0)) {
      if (u.origin !== location.origin) continue;
      const to = u.origin + u.pathname.replace(/\/$/, "/index.html"); // as the server shortens it
      if (to.endsWith(".html")) { if (!known.has(to)) { known.add(to); queue.push(to); } }
      else if (!(to in other)) { other[to] = (await fetch(to, {method: "HEAD"})).ok; if (!other[to]) faults.push(from + ": " + to + " is not there"); }
      if (u.hash) anchors.push([from, to, decodeURIComponent(u.hash.slice(1))]);
    }
  }
  for (const [from, to, id] of anchors) if (ids[to] && !ids[to].has(id)) faults.push(from + ": " + to + " has no " + id);
  for (const url of Object.keys(ids).filter((_, i) => i % 10 === 0)) await look(url, 400);
}
const anchors = [];
all().catch(e => faults.push(String(e.stack || e))).then(() =>
  fetch("/result", {method: "POST", body: JSON.stringify({faults, seen, skipped, pictures})}));
</script>`

// TestSite makes the site of this repository, with manual pages, and lets a browser walk
// through what can be reached from its first page, and to a page that is broken. (All pages of packages: TestLongSite.)
func TestSite(t *testing.T) { walkSite(t, 10) }

// walkSite looks at one in so many pages of packages, and at all others.
func walkSite(t *testing.T, packages int) {
	out, man, report := filepath.Join(t.TempDir(), "site"), "", filepath.Join(t.TempDir(), "report")
	if _, err := exec.LookPath("mandoc"); err == nil {
		man = t.TempDir()
		for name, see := range map[string]string{"ensemble": "ensemble-train", "ensemble-train": "ensemble"} {
			write(t, man, map[string]string{"man1/" + name + ".1": ".TH " + name + " 1 2026-01-31\n.SH NAME\n" + name + " \\- a page\n.SH SEE ALSO\n\\fB" + see + "\\fR(1)\n"})
		}
	}
	var panels strings.Builder
	for _, f := range figures {
		panels.WriteString("<section class=\"panel\"><h3>" + f.heading + "</h3>\n\n<figure><svg viewBox=\"0 0 1 1\"></svg></figure><details><summary>Numbers</summary></details></section>")
	}
	write(t, report, map[string]string{"index.html": `<!DOCTYPE html><html><head><style>body{font-family:sans-serif}</style></head><body><nav></nav><main><h1>Report</h1>` + panels.String() + "</main></body></html>"})
	if err := build(options{root: "../..", out: out, python: testdata.Python(t), man: man, report: report, version: "test"}); err != nil {
		t.Fatal(err)
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: no chromium in PATH to walk through the pages with")
	}
	write(t, out, map[string]string{"broken/index.html": broken})
	r := browse(t, chromium, out, packages)
	pages, others := 0, 0
	_ = filepath.WalkDir(out, func(p string, d os.DirEntry, err error) error {
		if strings.HasSuffix(p, ".html") {
			if pages++; !strings.Contains(p, "/packages/") {
				others++
			}
		}
		return err
	})
	if r.Seen+r.Skipped < pages || r.Seen <= others || r.Skipped > 0 == (packages == 1) || r.Pictures < 2 {
		t.Errorf("%d pages looked at and %d skipped of %d, %d of them not of packages; %d pictures", r.Seen, r.Skipped, pages, others, r.Pictures)
	}
	var found []string
	for _, f := range r.Faults {
		if strings.Contains(strings.SplitN(f, ": ", 2)[0], "/broken/") {
			found = append(found, f)
		} else {
			t.Error(f)
		}
	}
	all := strings.Join(found, "\n")
	for _, want := range []string{"gone.txt is not there", "has no y", "gone.html: no heading", "no picture", "wider than", "without its style", "fetches"} {
		if !strings.Contains(all, want) {
			t.Errorf("of the broken page %q is not among\n%s", want, all)
		}
	}
}

// broken is a page with everything that the walk is there to find.
const broken = `<!DOCTYPE html><body><nav></nav><main><h1 id="x">x</h1><a href="gone.txt">1</a><a href="#y">2</a><a href="gone.html">3</a>
<img src="none.png"><img src="http://localhost:9/none.png"><p style="width:3000px">wide</p></main>`

type walked struct {
	Faults                  []string
	Seen, Skipped, Pictures int
}

// browse lets Chromium walk through the pages of a folder, one in so many of those of packages.
func browse(t *testing.T, chromium, dir string, packages int) walked {
	t.Helper()
	result := make(chan []byte, 1)
	var once sync.Once
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("/walk", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, strings.ReplaceAll(walk, "PACKAGES", strconv.Itoa(packages)))
	})
	mux.HandleFunc("/result", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		once.Do(func() { result <- text })
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
		"--no-first-run", "--user-data-dir="+t.TempDir(), "--window-size=1400,900", "--remote-debugging-port=0", server.URL+"/walk")
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp") // where the names of its sockets are short enough
	var errs strings.Builder
	cmd.Stderr, cmd.WaitDelay = &errs, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		close(ended)
	}()
	defer func() {
		cancel()
		for range ended {
		}
	}()
	var w walked
	select {
	case err := <-ended:
		t.Fatalf("the browser ended: %v\n%s", err, &errs)
	case text := <-result:
		if err := json.Unmarshal(text, &w); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	case <-ctx.Done():
		t.Fatal("the browser did not end its walk")
	}
	return w
}
