package api

// User is a person, or a program that calls on its own behalf.
type User struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind" enum:"user,service" doc:"user: a person. service: a program; it has tokens and no password."`
	State     string    `json:"state" enum:"active,disabled" doc:"disabled: has no right until it is enabled."`
	Roles     []RoleRef `json:"roles" doc:"The roles of the user. Each gives its verbs in its namespace."`
	CreatedAt Time      `json:"created_at" format:"date-time"`
	CreatedBy string    `json:"created_by"`
	Source    string    `json:"source" doc:"How the user signs in: local, or the identity provider as oidc:NAME."`
	// HasPassword is set in answers about one user, not in lists.
	HasPassword *bool `json:"has_password,omitempty" doc:"Whether the user can sign in with a password. Lists do not tell it."`
}

// RoleRef is a role in a namespace.
type RoleRef struct {
	Role      string `json:"role" minLength:"1" maxLength:"100"`
	Namespace string `json:"namespace,omitempty" maxLength:"63" doc:"Absent or *: in all namespaces and for the cluster."`
	ExpiresAt *Time  `json:"expires_at,omitempty" format:"date-time" doc:"Absent: it does not end."`
}

// UserRequest makes a user.
type UserRequest struct {
	Name     string    `json:"name" minLength:"1" maxLength:"100" doc:"Kept in lower case and in the normal form NFKC."`
	Kind     string    `json:"kind,omitempty" enum:"user,service" doc:"Absent: user."`
	Password string    `json:"password,omitempty" maxLength:"1024" doc:"At least 12 characters, and none of the frequent passwords. Absent: the user cannot sign in with a password."`
	Roles    []RoleRef `json:"roles,omitempty" maxItems:"100" doc:"You need each verb of a role in its namespace."`
}

// PasswordRequest changes a password.
type PasswordRequest struct {
	Old      string `json:"old,omitempty" maxLength:"1024" doc:"The present password. Needed if it is your own."`
	Password string `json:"password" minLength:"1" maxLength:"1024"`
}

// Role is a set of verbs.
type Role struct {
	Name      string   `json:"name"`
	Verbs     []string `json:"verbs"`
	Builtin   bool     `json:"builtin" doc:"It comes with the program."`
	CreatedAt *Time    `json:"created_at" format:"date-time"`
	CreatedBy *string  `json:"created_by"`
}

// RoleRequest makes a role.
type RoleRequest struct {
	Name  string   `json:"name" minLength:"1" maxLength:"100"`
	Verbs []string `json:"verbs" minItems:"1" maxItems:"64" doc:"Such as run.read. A role cannot be changed: make another one."`
}

// Binding gives a role to a user or service.
type Binding struct {
	User      string `json:"user"`
	Role      string `json:"role"`
	Namespace string `json:"namespace" doc:"*: in all namespaces and for the cluster."`
	ExpiresAt *Time  `json:"expires_at" format:"date-time"`
	CreatedAt Time   `json:"created_at" format:"date-time"`
	CreatedBy string `json:"created_by"`
}

// BindingRequest grants a role.
type BindingRequest struct {
	User string `json:"user" minLength:"1" maxLength:"100"`
	RoleRef
}
