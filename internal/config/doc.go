// Package config is the settings of a process: one table of names, defaults and meanings, from which flags,
// environment, config file and credentials of the service fill a [Config]. [Live] holds the settings of a
// running process, and takes those that can change without a restart.
//
// The package also says what settings mean together: which addresses a node may listen on, which paths no
// task may reach, where files are. It opens nothing but the files that settings name.
package config
