// Package recipes has tests only: locks for libraries whose interface is so small that a module of its own would be more than
// it takes. Copy what they begin with.
package recipes
