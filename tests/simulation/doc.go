// Package simulation runs whole worlds of clients in virtual time. Each world is drawn from one number. It uses
// the real library, its adapter over go-redis, and its scripts on miniredis, in bubbles of testing/synctest.
// The network between clients and server is simulated: delays, lost and stalled connections, partitions,
// pauses, restarts. README.md says what that represents, what is checked, and what can be replayed.
package simulation
