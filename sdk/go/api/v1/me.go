package api

// Me is the caller of a request, as the node has identified it.
type Me struct {
	Name string `json:"name" doc:"The user or service of your calls."`
	Kind string `json:"kind" enum:"user,service,local"`
	// Verbs holds the caller's verbs by namespace.
	Verbs map[string][]string `json:"verbs" doc:"Your verbs by namespace. You have the verbs under * in all namespaces and for the cluster; they are not repeated elsewhere."`
}
