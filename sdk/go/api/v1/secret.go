package api

// Secret is a value that tasks of a namespace use by its name. No call returns the value.
type Secret struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Version    int64  `json:"version" doc:"How often the value was set, from 1."`
	User       string `json:"user" doc:"The user who set the value last."`
	CreatedAt  Time   `json:"created_at" format:"date-time"`
	ModifiedAt Time   `json:"modified_at" format:"date-time"`
}

// SecretRequest sets the value of a secret.
type SecretRequest struct {
	Value string `json:"value" doc:"6 bytes to 64 KiB of text."`
}

// KeyRotateRequest replaces the key that seals the secrets.
type KeyRotateRequest struct {
	Continue bool `json:"continue,omitempty" doc:"Continue a change; begin none."`
}

// KeyRotation is the progress of a replacement of that key.
type KeyRotation struct {
	Key    string `json:"key" doc:"The id of the present key. It says nothing about the key itself."`
	Sealed int    `json:"sealed" doc:"Secrets that this call has sealed again."`
	Left   bool   `json:"left" doc:"There are more: call again with continue. Until then both keys are needed."`
}

// HookSecret is the new secret of a webhook.
type HookSecret struct {
	Workflow string `json:"workflow"`
	Trigger  string `json:"trigger"`
	Secret   string `json:"secret" doc:"The sender signs its calls with it. No other answer contains it."`
	Earlier  []Time `json:"earlier" format:"date-time" doc:"The ends of the earlier secrets that are still valid, the latest first."`
}
