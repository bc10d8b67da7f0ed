// Package config contains the settings of a process. One table has their names, defaults and meanings. Flags,
// environment variables, the config file and credentials of the service fill a [Config]. [Live] contains the
// settings of a running process, and applies changes that need no restart.
//
// The package also has rules about several settings together: on which addresses a node may listen, which
// paths no task may reach, where files are. It opens only files that settings name.
package config
