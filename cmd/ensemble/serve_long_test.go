//go:build long

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// service runs as a process with its own input folder and configuration.
func (t *trial) service() (in, out, file string) {
	t.Helper()
	in, out = filepath.Join(t.dir, "in"), filepath.Join(t.dir, "out")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	return in, out, t.put("serve.yaml", fmt.Appendf(nil, "version: 1\nrun_dir: %s\ninput: [\"%s/*.grib2\"]\nout: %s\nmembers: {poll: 0.05s}\nserve: {allowed_hosts: [x]}\n", t.run, in, out))
}

// arrive moves all files of an init into a folder at once.
func (t *trial) arrive(in string, day time.Time) {
	t.Helper()
	name := day.Format("2006010215") + ".grib2"
	t.put(name, join(cycle(day)...))
	if err := os.Rename(filepath.Join(t.dir, name), filepath.Join(in, name)); err != nil {
		t.Fatal(err)
	}
}

// big publishes a file of the given size as the product of an init, so that ranges of 1 MiB can be read. Its
// manifest is that of an existing product with other outputs.
func (t *trial) big(out, from, name string, size int) {
	t.Helper()
	var m struct{ manifest.Record }
	text, err := os.ReadFile(filepath.Join(out, from, manifest.Name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(out, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 2654435761 >> 7)
	}
	if err := os.WriteFile(filepath.Join(dir, "big.nc"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	if m.Outputs, err = manifest.SumBelow(dir, []string{"big.nc"}); err != nil {
		t.Fatal(err)
	}
	if err := manifest.Write(dir, &m); err != nil {
		t.Fatal(err)
	}
}

// reading is the result of many readers of ranges.
type reading struct {
	mu     sync.Mutex
	took   []time.Duration
	failed []string
}

func (r *reading) p(share float64) time.Duration {
	slices.Sort(r.took)
	return r.took[min(int(share*float64(len(r.took))), len(r.took)-1)]
}

// readers request ranges of 1 MiB, perSecond of them in total, spread over time, and compare the bytes.
func readers(ctx context.Context, url string, whole []byte, n int, perSecond float64) *reading {
	r := &reading{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, MaxConnsPerHost: n}}
	defer client.CloseIdleConnections()
	var g sync.WaitGroup
	every := time.Duration(float64(n) / perSecond * float64(time.Second))
	for i := range n {
		g.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			time.Sleep(time.Duration(random.Int64N(int64(every))))
			body := make([]byte, 1<<20)
			next := time.Now()
			for ctx.Err() == nil {
				from := random.IntN(len(whole) - 1<<20)
				req, err := http.NewRequest("GET", url, nil)
				if err != nil {
					panic(err)
				}
				req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+1<<20-1))
				begun := time.Now()
				resp, err := client.Do(req)
				why := ""
				if err == nil {
					_, err = io.ReadFull(resp.Body, body)
					resp.Body.Close()
				}
				took := time.Since(begun)
				switch {
				case err != nil:
					why = err.Error()
				case resp.StatusCode != http.StatusPartialContent:
					why = resp.Status
				case !bytes.Equal(body, whole[from:from+1<<20]):
					why = "other bytes"
				}
				r.mu.Lock()
				r.took = append(r.took, took)
				if why != "" {
					r.failed = append(r.failed, why)
				}
				r.mu.Unlock()
				next = next.Add(every)
				time.Sleep(time.Until(next))
			}
		})
	}
	g.Wait()
	return r
}

// resident returns the resident memory of a process, in bytes.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestLongServeReaders: 50 readers request 200 ranges of 1 MiB per second for a minute while the service issues
// products. No request may fail. The response times are compared with those of Go's plain file server under the
// same load.
func TestLongServeReaders(t *testing.T) {
	f := faulty(t)
	in, out, file := f.service()
	f.arrive(in, lastDay)
	s := f.serve("-c", file)
	s.awaitLog(`"msg":"issued"`, 1)
	const size = 64 << 20
	first, name := lastDay.Format("2006010215"), "1990010100"
	f.big(out, first, name, size)
	whole, err := os.ReadFile(filepath.Join(out, name, "big.nc"))
	if err != nil {
		t.Fatal(err)
	}
	memory := residentBytes(t, s.cmd.Process.Pid)
	ctx, cancel := context.WithTimeout(t.Context(), 95*time.Second)
	defer cancel()
	var issuing sync.WaitGroup
	var issued atomic.Int32
	most := memory
	issuing.Go(func() {
		for day := 1; ctx.Err() == nil; day++ {
			f.arrive(in, lastDay.AddDate(0, 0, day))
			issued.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			most = max(most, residentBytes(t, s.cmd.Process.Pid))
		}
	})
	load := loadOf()
	minute, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	own := readers(minute, s.url+"/products/"+name+"/big.nc", whole, 50, 200)

	plain := exec.Command(os.Args[0], "-test.run=^TestLongPlainServer$")
	plain.Env = append(os.Environ(), "ENSEMBLE_PLAIN_SERVER="+filepath.Join(out, name))
	output, err := plain.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Process.Kill(); _ = plain.Wait() }()
	var at string
	if _, err := fmt.Fscan(output, &at); err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	other := readers(short, "http://"+at+"/big.nc", whole, 50, 200)
	nginx := readNginx(t, filepath.Join(out, name), whole)
	cancel()
	issuing.Wait()
	s.awaitLog(`"msg":"issued"`, 1+int(issued.Load()))
	if strings.Contains(s.text(), `"level":"ERROR"`) {
		t.Errorf("the log has errors")
	}
	t.Logf("%d processors, load %s: %d ranges of 1 MiB in a minute (%.0f a second) while %d inits were issued: %d failed; median %s, p99 %s, largest %s; memory %d MiB before, at most %d MiB",
		runtime.NumCPU(), load, len(own.took), float64(len(own.took))/60, issued.Load(), len(own.failed), own.p(0.5), own.p(0.99), own.p(1), memory>>20, most>>20)
	t.Logf("Go's plain file server while products are issued, for half a minute, load %s: median %s, p99 %s; ratio of p99 %.2f", loadOf(), other.p(0.5), other.p(0.99), float64(own.p(0.99))/float64(other.p(0.99)))
	if nginx != nil {
		t.Logf("nginx while products are issued, for half a minute, load %s: %d failed; median %s, p99 %s; ratio of p99 %.2f", loadOf(), len(nginx.failed), nginx.p(0.5), nginx.p(0.99), float64(own.p(0.99))/float64(nginx.p(0.99)))
	}
	for _, why := range own.failed[:min(len(own.failed), 5)] {
		t.Error(why)
	}
	if most > memory+64<<20 {
		t.Errorf("memory grows from %d to %d MiB", memory>>20, most>>20)
	}
	if len(own.took) < 60*200*9/10 {
		t.Errorf("%d ranges in a minute, want 12000", len(own.took))
	}
}

// readNginx measures nginx with the same readers for half a minute; nil if it is not in PATH.
func readNginx(t *testing.T, dir string, whole []byte) *reading {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Log("no nginx in PATH: not compared")
		return nil
	}
	port, at := freePort(t), t.TempDir()
	conf := filepath.Join(at, "nginx.conf")
	text := fmt.Sprintf("daemon off; pid %s/pid; error_log %[1]s/error.log; worker_processes 2;\nevents { worker_connections 256; }\nhttp { access_log off; sendfile on; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s; server { listen 127.0.0.1:%[2]s; root %[3]s; } }\n", at, port, dir)
	if os.Getuid() == 0 {
		text = "user root; " + text // its workers read the products of this user
	}
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-e", filepath.Join(at, "error.log"), "-c", conf)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }() // its workers end with it
	url := "http://127.0.0.1:" + port + "/big.nc"
	eventually(t, "nginx listens", func() bool {
		r, err := http.Head(url)
		return err == nil && r.Body.Close() == nil && r.StatusCode == http.StatusOK
	})
	short, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	return readers(short, url, whole, 50, 200)
}

func loadOf() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return strings.TrimSpace(string(text))
}

// TestLongPlainServer is the process of the file server that response times are compared with.
func TestLongPlainServer(t *testing.T) {
	dir := os.Getenv("ENSEMBLE_PLAIN_SERVER")
	if dir == "" {
		t.Skip("skipped: TestLongServeReaders runs it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	t.Fatal(http.Serve(l, http.FileServer(http.Dir(dir))))
}

// TestLongServeMalformed sends 10⁵ invalid requests as raw bytes: mutations, path traversals, invalid ranges,
// truncated requests and requests that never end. The service keeps running and sends nothing but products.
func TestLongServeMalformed(t *testing.T) {
	const requests = 100_000
	const secret = "not for anybody"
	f := faulty(t)
	in, out, file := f.service()
	f.arrive(in, lastDay)
	f.put("outside", []byte(secret))
	s := f.serve("-c", file)
	s.awaitLog(`"msg":"issued"`, 1)
	name := lastDay.Format("2006010215")
	f.put("out/"+name+"/unlisted.nc", []byte(secret))
	f.put("out/.serve/secret", []byte(secret))
	if err := os.Symlink("../outside", filepath.Join(out, "2001100900")); err != nil {
		t.Fatal(err)
	}
	paths := []string{"/", "/products/", "/products/" + name + "/", "/products/" + name + "/manifest.json", "/products/" + name + "/unlisted.nc", "/products/../outside", "/products/" + name + "/../../outside",
		"/products/" + name + "/..%2f..%2foutside", "/products/%2e%2e/%2e%2e/outside", "/products/" + name + "%2f..%2f..%2foutside", "/products/.serve/secret", "/products/2001100900", "/products/2001100900/",
		"/..\\..\\outside", "//outside", "/products/" + name + "/manifest.json%00", "/status", "/metrics", "/healthz", "/products/" + strings.Repeat("../", 40) + "etc/passwd"}
	headers := []string{"Host: x", "Range: bytes=0-9", "Range: bytes=-1", "Range: bytes=9-1", "Range: bytes=0-0,1-1,2-2", "Range: bytes=" + strings.Repeat("0-0,", 2000), "Range: bytes=18446744073709551615-18446744073709551616",
		"If-None-Match: *", "If-Range: \"", "Content-Length: 5", "Content-Length: -1", "Transfer-Encoding: chunked", "Connection: upgrade", "Expect: 100-continue", "X: " + strings.Repeat("y", 9000), "Accept: text/html", ": x", "Host: a\x00b"}
	begun := time.Now()
	var sent, answered, leaked atomic.Int64
	var g sync.WaitGroup
	addr := strings.TrimPrefix(s.url, "http://")
	slow := int64(0)
	for w := range 24 {
		g.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 2))
			for sent.Add(1) <= requests {
				var b bytes.Buffer
				method := []string{"GET", "HEAD", "POST", "PUT", "G\x00T", "", "CONNECT", "TRACE", strings.Repeat("A", 5000)}[max(0, random.IntN(30)-21)]
				fmt.Fprintf(&b, "%s %s HTTP/1.%d\r\n", method, paths[random.IntN(len(paths))], random.IntN(3))
				for range random.IntN(5) {
					b.WriteString(headers[random.IntN(len(headers))] + "\r\n")
				}
				b.WriteString("Connection: close\r\n\r\n")
				raw := b.Bytes()
				for range random.IntN(4) { // mutations
					if len(raw) < 2 {
						break
					}
					switch at := random.IntN(len(raw)); random.IntN(4) {
					case 0:
						raw[at] = byte(random.IntN(256))
					case 1:
						raw = slices.Delete(raw, at, at+1)
					case 2:
						raw = slices.Insert(raw, at, byte(random.IntN(256)), byte(random.IntN(256)))
					default:
						raw = raw[:at+1] // truncated
					}
				}
				c, err := net.DialTimeout("tcp", addr, 30*time.Second)
				if err != nil {
					t.Errorf("cannot connect: %v", err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(30 * time.Second))
				_, _ = c.Write(raw)
				if random.IntN(500) == 0 { // the service must close a request that never ends
					atomic.AddInt64(&slow, 1)
				} else if t, ok := c.(*net.TCPConn); ok {
					_ = t.CloseWrite()
				}
				got, _ := io.ReadAll(c)
				c.Close()
				if bytes.HasPrefix(got, []byte("HTTP/1.")) {
					answered.Add(1)
				}
				if bytes.Contains(got, []byte(secret)) || bytes.Contains(got, []byte("root:")) {
					leaked.Add(1)
					t.Errorf("%q gives %.300q", raw, got)
				}
			}
		})
	}
	g.Wait()
	resp, body := s.get("/products/" + name + "/manifest.json")
	t.Logf("%d requests in %s, %d answered, %d of them left open; memory %d MiB", requests, time.Since(begun).Round(time.Second), answered.Load(), slow, residentBytes(t, s.cmd.Process.Pid)>>20)
	if resp.StatusCode != 200 || !json.Valid(body) {
		t.Errorf("a request after them: %s", resp.Status)
	}
	if strings.Contains(s.text(), "internal error") {
		t.Error("the log has an internal error")
	}
	if code := s.stop(syscall.SIGTERM); code != exit.SaveAndStop {
		t.Errorf("ended with %d", code)
	}
}

// TestLongServeKilled: a service that is killed at random moments leaves no partial product, and the next process
// continues. At the end all products equal those of a service that was not killed.
func TestLongServeKilled(t *testing.T) {
	const kills, days = 20, 60
	f := faulty(t)
	in, out, file := f.service()
	for d := range days {
		f.arrive(in, lastDay.AddDate(0, 0, d))
	}
	random := rand.New(rand.NewPCG(3, 4))
	half := 0
	for range kills {
		s := f.serve("-c", file)
		time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
		s.stop(syscall.SIGKILL)
		for path := range tree(t, out) {
			dir, base := filepath.Split(path)
			if base == manifest.Name {
				var m manifest.Record
				text, err := os.ReadFile(filepath.Join(out, path))
				if err != nil || json.Unmarshal(text, &m) != nil {
					t.Fatalf("%s: %v %s", path, err, text)
				}
				if err := m.Verify(filepath.Join(out, dir)); err != nil {
					t.Error(err)
				}
			}
		}
		left, _ := filepath.Glob(filepath.Join(out, ".*partial*"))
		half = max(half, len(left))
	}
	before := len(tree(t, out))
	s := f.serve("-c", file)
	s.awaitLog(`"msg":"issued"`, days)
	if strings.Contains(s.text(), `"level":"ERROR"`) {
		t.Errorf("errors:\n%s", s.text())
	}
	if code := s.stop(syscall.SIGTERM); code != exit.SaveAndStop {
		t.Errorf("ended with %d", code)
	}
	got := tree(t, out)
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
	s = f.serve("-c", file)
	s.awaitLog(`"msg":"issued"`, days)
	s.stop(syscall.SIGTERM)
	want := tree(t, out)
	for path, sum := range want {
		if got[path] != sum {
			t.Errorf("%s differs from the product of a service that was not killed", path)
		}
	}
	t.Logf("%d kills; %d files before the last service and %d after it, of %d; at most %d files left by killed services", kills, before, len(got), len(want), half)
}

// TestLongServePage opens the page and the lists in a browser, which must report nothing on its console.
func TestLongServePage(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: no chromium in PATH")
	}
	f := faulty(t)
	in, _, file := f.service()
	f.arrive(in, lastDay)
	f.put("in/late.grib2", join(without(cycle(lastDay.AddDate(0, 0, 1)), func(x testgrib.Message) bool { return x.Member > 0 })...))
	s := f.serve("-c", file)
	s.awaitLog(`"msg":"issued"`, 1)
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if _, body := s.get("/"); bytes.Contains(body, []byte(`class="map"`)) {
			break
		}
	}
	shots := os.Getenv("ENSEMBLE_SHOTS") // folder in which screenshots are kept for inspection
	if shots == "" {
		shots = f.dir
	}
	for name, path := range map[string]string{"page": "/", "products": "/products/", "init": "/products/" + lastDay.Format("2006010215") + "/"} {
		shot := filepath.Join(shots, name+".png")
		cmd := exec.CommandContext(t.Context(), chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
			"--user-data-dir="+filepath.Join(f.dir, "profile"), "--window-size=1280,1400", "--screenshot="+shot, s.url+path)
		cmd.WaitDelay = 5 * time.Second
		output, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(output), "CONSOLE") {
			t.Errorf("%s: %v\n%s", path, err, output)
			continue
		}
		file, err := os.Open(shot)
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		colours := map[[3]uint32]bool{}
		for y := 0; y < img.Bounds().Dy(); y += 2 {
			for x := 0; x < img.Bounds().Dx(); x += 2 {
				r, g, b, _ := img.At(x, y).RGBA()
				colours[[3]uint32{r, g, b}] = true
			}
		}
		if least := map[string]int{"page": 100}[name]; len(colours) < max(least, 20) {
			t.Errorf("%s looks blank: %d colours", path, len(colours))
		}
	}
}
