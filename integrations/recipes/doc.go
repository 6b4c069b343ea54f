// Package recipes shows locks for libraries whose lock interface is too small for a module of its own. It has only tests: copy the
// type with which each begins.
package recipes
