package skein

import "net/http"

// TransportOf returns a transport that answers calls with a handler in this process.
func TransportOf(h http.Handler) http.RoundTripper { return handlerTransport{h} }
