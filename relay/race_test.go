//go:build race

package relay

const raceDetector = true
