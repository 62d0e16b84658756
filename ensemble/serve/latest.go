package serve

import "net/http"

// latestName is the name of the newest initialisation in paths.
const latestName = "latest"

// latestAge is the Cache-Control of answers that the next initialisation changes.
const latestAge = "max-age=30"

// latest responds with the newest initialisation with products that is not in the future: their list, or a file, with or
// without the initialisation in its name. Content-Location is the lasting path.
//
// Ranges are not served here: two of them could be of two forecasts.
func (h *handler) latest(w *response, r *http.Request, file string) {
	c := h.newest()
	if c == nil {
		h.notFound(w, errNotFound)
		return
	}
	if _, ok := c.files[file]; !ok && file != "" {
		file = c.name + "_" + file
		if _, ok := c.files[file]; !ok {
			h.notFound(w, errNotFound)
			return
		}
	}
	w.Header().Set("Cache-Control", latestAge)
	w.Header().Set("Content-Location", "/products/"+c.name+"/"+file)
	if file == "" {
		h.listProducts(w, r, c.name)
		return
	}
	w.whole = true
	r.Header.Del("Range")
	h.file(w, r, c.name, file)
}
