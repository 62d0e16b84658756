package serve

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// minCompressed is the length from which texts are compressed: shorter ones fit into one packet.
const minCompressed = 1400

// plain responds with a text of the given media type, compressed by gzip if the client accepts it. Product files are
// never compressed: clients read ranges of them.
//
// Source: RFC 9110, sections 8.4 (Content-Encoding) and 8.8.3 (an entity tag identifies one representation).
func plain(w *response, r *http.Request, kind string, text []byte) {
	head := w.Header()
	head.Set("Content-Type", kind)
	sum := sha256.Sum256(text)
	tag := hex.EncodeToString(sum[:16])
	if isText(kind) && len(text) >= minCompressed {
		head.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Values("Accept-Encoding")) {
			text, tag = compress(text), tag+"-gzip"
			head.Set("Content-Encoding", "gzip")
			head.Set("Content-Length", strconv.Itoa(len(text))) // http.ServeContent leaves it out
			r.Header.Del("Range")
		}
	}
	head.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// isText reports whether a media type is a text, which compression makes shorter.
func isText(kind string) bool {
	return strings.HasPrefix(kind, "text/") || strings.Contains(kind, "json") || strings.Contains(kind, "xml")
}

// compress compresses a text. The fastest level makes lists ten times as short.
func compress(text []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(text)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // the level is valid, and a buffer takes all
	}
	return b.Bytes()
}

// acceptsGzip reports whether values of Accept-Encoding accept gzip.
//
// Source: RFC 9110, section 12.5.3.
func acceptsGzip(values []string) bool {
	any := false
	for _, v := range strings.Split(strings.Join(values, ","), ",") {
		name, parameters, _ := strings.Cut(v, ";")
		key, q, found := strings.Cut(strings.TrimSpace(parameters), "=")
		weight, err := strconv.ParseFloat(q, 64)
		accepted := !found || !strings.EqualFold(key, "q") || err == nil && weight > 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return accepted
		case "*":
			any = accepted
		}
	}
	return any
}
