package health

import (
	"net/http"
	"net/http/pprof"
)

// profiles serves Go's profiles to callers on this host. They show what is in memory, and a profile takes processor
// time.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromHere(r) {
			answer(w, http.StatusForbidden, "profiles are for callers on the loopback interface, not through a proxy "+
				"and not from a page in a browser\n")
			return
		}
		mux.ServeHTTP(w, r)
	})
}
