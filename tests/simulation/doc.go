// Package simulation runs whole worlds of clients in virtual time, each drawn from one
// number: the library as it is, its adapter over go-redis, and its scripts on miniredis,
// in bubbles of testing/synctest. What is between clients and server is simulated:
// delays, lost and stalled connections, partitions, pauses, restarts. README.md says
// what that stands for, what is checked, and what can be replayed.
package simulation
