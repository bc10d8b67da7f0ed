package dag

import "strings"

// Queues and resource classes belong to a namespace, or to the cluster. Those of the cluster are shared by
// all namespaces. The stored name of an object of a namespace is NAMESPACE/NAME. The stored name of a shared
// object is its name alone, without a slash.

// OwnName returns the stored name of an object of a namespace; "" is the namespace of shared objects.
func OwnName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// CutName splits a stored name into its namespace, which is "" for a shared object, and its name in that
// namespace.
func CutName(stored string) (namespace, name string) {
	namespace, name, own := strings.Cut(stored, "/")
	if !own {
		return "", stored
	}
	return namespace, name
}

// lockEnd ends the namespace in the stored name of a lock. No name of a namespace or a lock contains it, so
// the locks of one namespace never have the stored name of another lock.
const lockEnd = "\x1f"

// OwnLock returns the stored name of a lock of a namespace. For a shared lock, the namespace is "".
func OwnLock(namespace, name string) string { return namespace + lockEnd + name }

// CutLock splits the stored name of a lock into its namespace, which is "" for a shared lock, and its name.
func CutLock(stored string) (namespace, name string) {
	namespace, name, own := strings.Cut(stored, lockEnd)
	if !own {
		return "", stored
	}
	return namespace, name
}

// LockName returns the name of a lock without its namespace, for messages. All runs that can hold the lock
// use this name.
func LockName(stored string) string {
	_, name := CutLock(stored)
	return name
}

// LockNames returns the names of several locks without their namespaces.
func LockNames(stored []string) []string {
	names := make([]string, len(stored))
	for i, l := range stored {
		names[i] = LockName(l)
	}
	return names
}

// IsLock reports whether a text can be the name of a lock in a definition.
func IsLock(name string) bool {
	return name != "" && len(name) <= ClaimNameMax && !strings.Contains(name, lockEnd)
}

// QueueLine returns the name of the line of a queue and a key. The first slash of a line ends the queue, so
// a colon takes the place of the slash in the name of the queue.
func QueueLine(queue, key string) string { return strings.Replace(queue, "/", ":", 1) + "/" + key }

// CutLine splits the name of a line into its queue and key. For the line of a lock, queue is "" and key is
// the lock.
func CutLine(line string) (queue, key string) {
	queue, key, _ = strings.Cut(line, "/")
	return strings.Replace(queue, ":", "/", 1), key
}
