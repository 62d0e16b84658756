package report

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The page in a browser must show something and leave no message on the console.
func TestInBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: no chromium in PATH to look at the page with")
	}
	shot, messages := browse(t, chromium, write(t, samplePage()))
	if colours, deviation := look(t, shot); colours < 50 || deviation < 10 {
		t.Errorf("the page looks blank: %d colours, standard deviation %.1f of 255", colours, deviation)
	}
	if len(messages) > 0 {
		t.Errorf("the console has messages:\n%s", strings.Join(messages, "\n"))
	}

	// The test must detect the fault that it is for.
	shot, messages = browse(t, chromium, `<!DOCTYPE html><html><body><script>console.error("x"); missing();</script></body></html>`)
	if colours, _ := look(t, shot); colours >= 50 {
		t.Errorf("a blank page has %d colours", colours)
	}
	if len(messages) < 2 {
		t.Errorf("two errors on the console gave %q", messages)
	}
}

// A column that is clicked on is sorted by its numbers, and backwards when it is clicked on again; the page runs no script but its own.
func TestSortInBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: no chromium in PATH to click with")
	}
	page := write(t, &Page{Title: "Sorted", Tables: []Table{{Title: "Numbers", Sortable: true, Columns: []string{"run", "value"},
		Rows: [][]string{{"a", "10 K"}, {"b", "\u22123 K"}, {"c", "9.5 K"}, {"d", "–"}}}}})
	dir := t.TempDir()
	// The click is a script of the test, so its digest is added to the content security policy.
	sum := sha256.Sum256([]byte(clickScript))
	page = strings.Replace(page, "script-src ", "script-src &#39;sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"&#39; ", 1)
	file := filepath.Join(dir, "index.html")
	if err := os.WriteFile(file, []byte(strings.Replace(page, "</body>", "<script>"+clickScript+"</script><script>document.title = \"foreign\"</script></body>", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--user-data-dir="+filepath.Join(dir, "profile"), "--dump-dom", "file://"+file)
	cmd.Env = append(os.Environ(), shortNames)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := `<p id="orders">b c a d, d a c b, ascending descending</p>`; !strings.Contains(string(out), want) || strings.Contains(string(out), "<title>foreign") {
		t.Errorf("the page is without %s, or ran a foreign script:\n%s", want, out[max(0, len(out)-1500):])
	}
}

// On a narrow screen no part of the page is wider than it, tables that scroll excepted, and a table that scrolls has its
// first column fixed.
func TestNarrowInBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: no chromium in PATH to look at the page with")
	}
	p := samplePage()
	p.Scores = scoredSample(t, 14)
	p.Scores.Scores[0].System = "network"
	dir := t.TempDir()
	sum := sha256.Sum256([]byte(narrowScript))
	page := strings.Replace(write(t, p), "style-src ", "script-src &#39;sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"&#39;; style-src ", 1)
	page = strings.ReplaceAll(page, "<details", `<details open=""`)
	file := filepath.Join(dir, "index.html")
	if err := os.WriteFile(file, []byte(strings.Replace(page, "</body>", "<script>"+narrowScript+"</script></body>", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=500,2000", "--user-data-dir="+filepath.Join(dir, "profile"), "--dump-dom", "file://"+file)
	cmd.Env = append(os.Environ(), shortNames)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, found, _ := strings.Cut(string(out), `<p id="wide">`)
	found, _, _ = strings.Cut(found, "</p>")
	if found != "fits, sticky" {
		t.Errorf("on a narrow screen: %.400q", found)
	}
}

// narrowScript compares the width of the page at 390 pixels with that of its parts.
const narrowScript = `document.body.style.width = "390px";
const wide = [...document.querySelectorAll("main *, header *")].filter((e) => !e.closest("svg svg, .scroll, .wide-chart, defs") && e.getBoundingClientRect().right > 391).map((e) => e.tagName + "." + e.className);
const scrolls = [...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth);
const sticky = scrolls.length > 0 && scrolls.every((e) => getComputedStyle(e.querySelector("th")).position === "sticky");
const p = document.createElement("p"); p.id = "wide"; p.textContent = (wide.slice(0, 9).join(" ") || "fits") + ", " + (sticky ? "sticky" : "not sticky"); document.body.append(p);`

// clickScript clicks twice on the second column and writes the orders into the page.
const clickScript = `const b = document.querySelectorAll("th button")[1], said = [], how = [];
for (let i = 0; i < 2; i++) { b.click(); said.push([...document.querySelectorAll("tbody tr")].map((r) => r.cells[0].textContent).join(" ")); how.push(b.parentElement.getAttribute("aria-sort")); }
const p = document.createElement("p"); p.id = "orders"; p.textContent = said.join(", ") + ", " + how.join(" "); document.body.append(p);`

// shortNames is a setting of a browser, whose sockets have no room for long names.
const shortNames = "TMPDIR=/tmp"

// browse takes a picture of a page, and its messages on the console.
func browse(t *testing.T, chromium, page string) (shot string, messages []string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "index.html")
	shot = filepath.Join(dir, "shot.png")
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
		"--no-first-run", "--hide-scrollbars", "--enable-logging=stderr", "--v=0", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--window-size=1280,2400", "--screenshot="+shot, "file://"+file)
	cmd.Env, cmd.WaitDelay = append(os.Environ(), shortNames), 5*time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, "CONSOLE") {
			messages = append(messages, line)
		}
	}
	return shot, messages
}

// look counts the colours of a picture and how much its brightness varies.
func look(t *testing.T, file string) (colours int, deviation float64) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[3]uint32]bool{}
	var n, sum, squares float64
	for y := 0; y < img.Bounds().Dy(); y += 2 {
		for x := 0; x < img.Bounds().Dx(); x += 2 {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint32{r, g, b}] = true
			l := (0.3*float64(r) + 0.6*float64(g) + 0.1*float64(b)) / 257
			n, sum, squares = n+1, sum+l, squares+l*l
		}
	}
	return len(seen), math.Sqrt(squares/n - sum/n*sum/n)
}
