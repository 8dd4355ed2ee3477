// Package charts tests the Helm charts in this folder.
package charts
