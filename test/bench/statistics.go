package main

import (
	"slices"
	"time"
)

const mib = 1 << 20

// each returns a figure of every run, in the order of the runs.
func each[T any](runs []T, value func(T) float64) []float64 {
	all := make([]float64, len(runs))
	for i, run := range runs {
		all[i] = value(run)
	}
	return all
}

// middle is the median.
func middle(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func largest(all []float64) float64 { return slices.Max(all) }

func sum(all []float64) (total float64) {
	for _, one := range all {
		total += one
	}
	return total
}

func mean(all []float64) float64 { return sum(all) / float64(len(all)) }

// percentile returns a percentile of sorted times, in milliseconds.
func percentile(sorted []time.Duration, percent float64) float64 {
	at := int(float64(len(sorted)) * percent / 100)
	return float64(sorted[min(at, len(sorted)-1)].Microseconds()) / 1000
}
