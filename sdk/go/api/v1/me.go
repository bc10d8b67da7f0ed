package api

// Me is the caller of a request, as the node has identified it.
type Me struct {
	Name string `json:"name" doc:"On whose behalf your calls are made."`
	Kind string `json:"kind" enum:"user,service,local"`
	// Verbs holds the caller's verbs by namespace.
	Verbs map[string][]string `json:"verbs" doc:"Your verbs by namespace. Those under * you have in all namespaces and for the cluster; they are not repeated elsewhere."`
}
