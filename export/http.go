package export

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/skepdb/skep/internal/fault"
)

// Handler serves exports over HTTP, below the path that it is mounted at without
// prefix. It only reads:
//
//	GET /exports                             all exports, as JSON
//	GET /exports/NAME                        one, and its runs
//	GET /exports/NAME/runs/RUN               a run; RUN may be latest
//	GET /exports/NAME/runs/RUN/download      its zip: ETag is its SHA-256; Range and
//	                                         If-Range resume a transfer
//
// Errors are JSON, {"error": "..."}, with status 404 for what doesn't exist and 409
// for a run without a file.
func Handler(s *Service) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /exports", func(w http.ResponseWriter, _ *http.Request) {
		all := s.List()
		if all == nil {
			all = []Definition{}
		}
		reply(w, http.StatusOK, map[string]any{"exports": all})
	})
	mux.HandleFunc("GET /exports/{name}", func(w http.ResponseWriter, r *http.Request) {
		d, runs, err := s.Get(r.PathValue("name"))
		if err != nil {
			refuse(w, err)
			return
		}
		if runs == nil {
			runs = []Run{}
		}
		reply(w, http.StatusOK, map[string]any{"export": d, "runs": runs})
	})
	mux.HandleFunc("GET /exports/{name}/runs/{run}", func(w http.ResponseWriter, r *http.Request) {
		run, err := s.Run(r.PathValue("name"), r.PathValue("run"))
		if err != nil {
			refuse(w, err)
			return
		}
		reply(w, http.StatusOK, run)
	})
	mux.HandleFunc("GET /exports/{name}/runs/{run}/download", s.download)
	return mux
}

// download sends a file, or the part of it that is asked for: http.ServeContent
// does ranges and conditions, and reads the file as the line takes it.
func (s *Service) download(w http.ResponseWriter, r *http.Request) {
	f, run, err := s.Artifact(r.PathValue("name"), r.PathValue("run"))
	if err != nil {
		refuse(w, err)
		return
	}
	defer f.Close()
	h := w.Header()
	h.Set("ETag", `"`+run.Manifest.ZipSHA256+`"`)
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="`+run.Export+"-"+run.ID+`.zip"`)
	h.Set("Cache-Control", "private, no-cache")
	// The run that "latest" meant, for those who resume.
	h.Set(RunHeader, run.ID)
	http.ServeContent(w, r, "", run.Ended, f)
}

// RunHeader names the run that a download is of.
const RunHeader = "Skep-Export-Run"

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the line is gone: nobody to tell
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		status = http.StatusNotFound
	case fault.ClassOf(err) == fault.User:
		status = http.StatusConflict
	case fault.ClassOf(err) == fault.Retryable:
		status = http.StatusServiceUnavailable
	}
	reply(w, status, map[string]string{"error": strings.TrimSuffix(err.Error(), ": "+fs.ErrNotExist.Error())})
}
