package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// demoRun is a run of two variables at two leads, trained on the demonstration data.
var demoRun = sync.OnceValues(func() (run string, err error) {
	dir := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "page")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	config := filepath.Join(dir, "train.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `version: 1
data:
  forecasts: [%[1]s/demo_fc_*.grib2]
  analyses: [%[1]s/demo_an_*.nc]
  members: {use: 4, full: 4, minimum: 3}
  leads: [0h, 24h, 48h]
  target_leads: [24h, 48h]
  levels: [850hPa, 500hPa]
  variables: [t, gh]
  targets: [{variable: t, levels: [850hPa]}, {variable: gh, levels: [500hPa]}]
  split: {fractions: {train: 0.7, validation: 0.15}}
model: {base: 4, stages: 2}
baselines: [climatology]
train: {epochs: 6, batch_size: 4, learning_rate: 0.003, threads: 1, networks: 1}
`, demoFolder), 0o644); err != nil {
		return "", err
	}
	run = filepath.Join(dir, "run")
	var stdout, stderr bytes.Buffer
	if code := execute([]string{"train", "-c", config, "--run-dir", run, "--progress", "none"}, &stdout, &stderr); code != exit.OK {
		err = fmt.Errorf("training for the tests of the page: exit %d: %s", code, stderr.String())
	}
	return run, err
})

// demoFolder is the folder of the demonstration data, for demoRun.
var demoFolder string

// demoTrial is a trial with the run of demoRun, and the files that it was trained on.
func demoTrial(t *testing.T) (*trial, *demo.Files) {
	t.Helper()
	f := demotest.Files(t)
	demoFolder = filepath.Dir(f.GRIB2[0])
	run, err := demoRun()
	if err != nil {
		t.Fatal(err)
	}
	return &trial{T: t, dir: t.TempDir(), run: run}, f
}

// demoInit is the initialisation of a file of the demonstration data.
func demoInit(t *testing.T, path string) time.Time {
	t.Helper()
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "demo_fc_"), ".grib2")
	at, err := time.Parse("2006010215", name)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// arriving copies a file into the input of a service.
func (s *scheduled) arriving(path string) {
	s.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	s.put("in/"+filepath.Base(path), text)
}

// pageProducts are the products of the tests of the page.
var pageProducts = []string{"products=[mean, spread, quantiles, probabilities]", "quantiles=[0.1, 0.25, 0.5, 0.75, 0.9]", `probabilities=["t<0degC", "gh>5500"]`}

// TestServePage: the page of a service that issues real products in each of its states, with map and meteogram as its address
// names them. On a narrow screen no part is wider than it. (More of the pages on all screens: TestLongServePageOnAllScreens.)
func TestServePage(t *testing.T) { servePage(t, false) }

// servePage looks at pages in a browser, all kinds of screens for each or the least.
func servePage(t *testing.T, allScreens bool) {
	chosen, files := demoTrial(t)
	file := files.GRIB2[len(files.GRIB2)-1]
	init := demoInit(t, file)
	views := &views{t: t, hide: []string{chosen.dir + "/"}, allScreens: allScreens}
	set := append([]string{"serve.schedule.cycles=[00]", "serve.schedule.expected=init+6h40m", "serve.ready_max_age=26h"}, pageProducts...)

	s := chosen.startServing("cpu", init.Add(time.Hour), set...)
	eventually(t, "the page is there", func() bool {
		page := s.get("/")
		return strings.Contains(page, `<p class="state none">`) && strings.Contains(page, "trained on ") // the model is ready
	})
	views.add("none", s.get("/"))

	s.arriving(file)
	s.clock.Store(init.Add(7 * time.Hour).Unix())
	s.await(init, "issued", "")
	query := "/?init=" + name(init) + "&variable=gh-500hPa&lead=48h&show=mean&lat=47.4&lon=8.5"
	page := s.get(query)
	for _, want := range []string{`<p class="state fresh">`, "Nothing to do.", "Geopotential height at 500\u202fhPa: mean", "mean of 4 raw members", "post-processed mean", `class="iso"`, "Numbers of the meteogram",
		"10 to 90 % of the calibrated distribution", "mean of the members ± their spread"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page of fresh products:\n%.3000s", want, page)
		}
	}
	views.add("fresh", page)
	views.add("probability", s.get("/?variable=t-850hPa&show=probability-below-273.15&lat=47.4&lon=8.5"))
	if damage := s.get("/?variable=nothing"); !strings.Contains(damage, "Available: gh-500hPa, t-850hPa") {
		t.Errorf("an unknown variable:\n%.2000s", damage)
	}

	next := init.Add(24 * time.Hour)
	s.clock.Store(init.Add(31 * time.Hour).Unix())
	s.await(next, "late", "")
	views.add("late", s.get("/"))
	eventually(t, "it is acknowledged", func() bool { // once the service has saved that it knows it
		code, _, _ := call(t, "products", "acknowledge", name(next), "--out", filepath.Join(s.dir, "out"))
		return code == exit.OK
	})
	eventually(t, "the page is stale", func() bool { return strings.Contains(s.get("/"), `<p class="state stale">`) })
	views.add("stale", s.get("/"))

	degraded, _ := demoTrial(t)
	views.hide = append(views.hide, degraded.dir+"/")
	s = degraded.startServing("cpu", init.Add(7*time.Hour), append([]string{"members.expected=6", "members.deadline=init+6h30m", "members.on_missing=degrade", "serve.retry_delay=2h"}, set...)...)
	s.arriving(file)
	s.await(init, "degraded", "4 of 6 members")
	views.add("degraded", s.get("/?variable=t-850hPa"))
	text, err := os.ReadFile(files.GRIB2[0])
	if err != nil {
		t.Fatal(err)
	}
	s.put("in/damaged.grib2", text[:len(text)*2/3])
	s.await(demoInit(t, files.GRIB2[0]), "failed", "")
	views.add("failed", s.get("/?variable=t-850hPa&show=quantile-0.9"))
	views.look()
}

// views are pages by their states.
type views struct {
	t          *testing.T
	hide       []string // folders of the test, which pictures do not show
	names      []string
	pages      []string
	allScreens bool // in the browser: of the second page too, not only of the first
}

// add adds a page, which must begin with its state if the name is one.
func (v *views) add(name, page string) {
	v.t.Helper()
	if name != "probability" && !strings.Contains(page, `<p class="state `+name+`">`) {
		v.t.Errorf("the page is not %s:\n%.6000s", name, page)
	}
	for _, dir := range v.hide {
		page = strings.ReplaceAll(page, dir, "")
	}
	v.names, v.pages = append(v.names, name), append(v.pages, page)
}

// look opens two of the pages in a browser, on wide and on narrow screens: none may be wider than the screen, or cause a message
// on the console. Unless allScreens is set the second has the narrowest only, and the dark colour scheme. With ENSEMBLE_SHOTS=FOLDER all pages are opened, and pictures of them kept; the pictures of docs/operations.md
// are page.png, page-STATE.png and page-STATE-390.png.
func (v *views) look() {
	v.t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		v.t.Skip("skipped: no chromium in PATH to look at the page with")
	}
	dir := os.Getenv("ENSEMBLE_SHOTS")
	for i, name := range v.names {
		if dir == "" && name != "fresh" && name != "failed" {
			continue
		}
		audits := []audit{{name + ", dark", v.pages[i], "0", "none"}, {name + ", light", v.pages[i], "1", "none"}}
		widths := []int{1280, 800, 390, 370} // the four widths of maps
		if name == "fresh" {
			audits = append(audits, audit{"an image without text", axeControl, "1", "image-alt"})
		} else if dir == "" && !v.allScreens {
			audits, widths = audits[:1], widths[3:]
		}
		v.audit(chromium, name, audits)
		for _, width := range widths {
			shot := filepath.Join(cmp.Or(dir, v.t.TempDir()), fmt.Sprintf("%s-%d.png", name, width))
			v.shoot(chromium, v.pages[i], shot, width)
			if dir == "" || name == "probability" {
				continue
			}
			if name == "fresh" && width == 1280 {
				crop(v.t, shot, filepath.Join(dir, "page.png"), image.Pt(width, 1440))
			}
			switch width { // what a screen shows
			case 1280:
				crop(v.t, shot, filepath.Join(dir, "page-"+name+".png"), image.Pt(width, 620))
			case 390:
				crop(v.t, shot, filepath.Join(dir, "page-"+name+"-390.png"), image.Pt(width, 844))
			}
		}
	}
}

// axeControl is a page with one violation.
const axeControl = `<!DOCTYPE html><html lang="en"><title>x</title><body><main><h1>x</h1><img src="x"></main></body></html>`

// audit is a page, a colour scheme of Chromium, and what axe-core finds there.
type audit struct{ name, page, scheme, want string }

// audit runs axe-core on the page of a name, and on a page with a violation.
func (v *views) audit(chromium, name string, audits []audit) {
	v.t.Helper()
	found, _ := filepath.Glob("../../build/venv/lib/python3*/site-packages/axe_core_python/axe.min.js")
	if found == nil {
		v.t.Logf("%s is not checked by axe-core: it is not in build/venv (scripts/setup.sh test installs it)", name)
		return
	}
	axe, err := os.ReadFile(found[0])
	if err != nil {
		v.t.Fatal(err)
	}
	for _, c := range audits {
		file := filepath.Join(v.t.TempDir(), "page.html")
		text := strings.Replace(c.page, "</body>", "<script>"+string(axe)+"</script><script>"+auditScript+"</script></body>", 1)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			v.t.Fatal(err)
		}
		_, got, _ := strings.Cut(browse(v.t, chromium, file, "--window-size=1280,2000", "--blink-settings=preferredColorScheme="+c.scheme, "--virtual-time-budget=60000", "--dump-dom"), `<p id="axe">`)
		if got, _, _ = strings.Cut(got, "</p>"); !strings.HasPrefix(got, c.want) {
			v.t.Errorf("%s: axe-core finds %s, want %s", c.name, html.UnescapeString(got), c.want)
		}
	}
}

// auditScript writes the violations that axe-core finds.
const auditScript = `axe.run(document).then((r) => { const p = document.createElement("p"); p.id = "axe";
p.textContent = r.violations.map((x) => x.id + " (" + x.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join("; ") + ")").join(", ") || "none"; document.body.append(p); });`

// browse opens a file in Chromium, which may write no message on its console, and returns what it prints.
func browse(t *testing.T, chromium, file string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, append(append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
		"--user-data-dir=" + filepath.Join(filepath.Dir(file), "profile")}, args...), "file://"+file)...)
	cmd.Env, cmd.WaitDelay = append(os.Environ(), "TMPDIR=/tmp"), 5*time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || strings.Contains(stderr.String(), "CONSOLE") {
		t.Errorf("%s: %v\n%s", file, err, stderr.String())
	}
	return stdout.String()
}

// shoot takes a picture of a page in a frame of a width, and compares the width of its parts with it.
func (v *views) shoot(chromium, page, shot string, width int) {
	v.t.Helper()
	const height = 2600
	dir := v.t.TempDir()
	file := filepath.Join(dir, "frame.html")
	frame := fmt.Sprintf(`<!DOCTYPE html><html><body style="margin:0;background:#fff"><iframe id="f" style="border:0;width:%dpx;height:%dpx" srcdoc="%s"></iframe><script>%s</script></body></html>`,
		width, height, html.EscapeString(page), frameScript)
	if err := os.WriteFile(file, []byte(frame), 0o644); err != nil {
		v.t.Fatal(err)
	}
	dom := browse(v.t, chromium, file, fmt.Sprintf("--window-size=%d,%d", max(width, 500), height), "--dump-dom", "--screenshot="+shot)
	_, wide, _ := strings.Cut(dom, `<p id="wide">`)
	if wide, _, _ = strings.Cut(wide, "</p>"); wide != "fits" {
		v.t.Errorf("%s: at %d pixels parts are wider than the screen, or inputs not on their maps: %.900q", shot, width, wide)
	}
	crop(v.t, shot, shot, image.Pt(width, height))
}

// frameScript writes which parts of the page in the frame are wider than it, those of scrolling tables excepted, and which
// inputs for clicks do not lie on their map with the width in their name, by which positions are read.
const frameScript = `const f = document.getElementById("f");
f.onload = () => { const d = f.contentDocument, limit = f.clientWidth + 1;
const wide = [...d.querySelectorAll("header *, main *, footer *")].filter((e) => !e.closest("svg svg, .scroll table, defs, .away") && e.getBoundingClientRect().right > limit).map((e) => e.tagName + "." + e.getAttribute("class"));
for (const c of d.querySelectorAll(".click")) {
  const s = c.querySelector("svg").getBoundingClientRect(), shown = [...c.querySelectorAll("input[type=image]")].filter((i) => i.offsetParent), r = shown[0].getBoundingClientRect();
  if (shown.length !== 1 || [r.width - shown[0].name.split("-")[1], r.width - s.width, r.height - s.height, r.left - s.left, r.top - s.top].some((x) => Math.abs(x) > 0.6)) wide.push("click area " + shown.map((i) => i.name) + " " + JSON.stringify([r, s]));
}
const p = document.createElement("p"); p.id = "wide"; p.textContent = wide.slice(0, 9).join(" ") || "fits"; document.body.append(p); };`

// crop writes the upper left part of a picture, up to its last row that is not blank, with at most 256 colours.
func crop(t *testing.T, from, to string, size image.Point) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	count, last := map[color.RGBA]int{}, 0
	at := func(x, y int) color.RGBA { // 5 bits of each colour
		r, g, b, _ := img.At(x, y).RGBA()
		five := func(v uint32) uint8 { return uint8((v >> 8 & 0xf8) * 255 / 0xf8) }
		return color.RGBA{five(r), five(g), five(b), 255}
	}
	size.X, size.Y = min(size.X, img.Bounds().Dx()), min(size.Y, img.Bounds().Dy())
	for y := range size.Y {
		for x := range size.X {
			c := at(x, y)
			if count[c]++; c != at(0, y) {
				last = y
			}
		}
	}
	if len(count) < 20 {
		t.Errorf("%s looks blank: %d colours", from, len(count))
	}
	often := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	for _, c := range often[:min(256, len(often))] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(image.Rect(0, 0, size.X, min(last+24, size.Y)), palette)
	index := map[color.RGBA]uint8{}
	for y := range out.Rect.Dy() {
		for x := range size.X {
			c := at(x, y)
			k, ok := index[c]
			if !ok {
				k = uint8(palette.Index(c))
				index[c] = k
			}
			out.SetColorIndex(x, y, k)
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
