package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// processorTime returns the processor time that a process and its children have used so far: PostgreSQL forks one child
// for each connection. Children that have ended are included.
func processorTime(pid int) time.Duration {
	total := ticks(pid, 4)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, stat := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if fields := statOf(child); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			total += ticks(child, 2)
		}
	}
	return total
}

// used is the processor time of a server, or 0 when it cannot be seen.
func used(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	return processorTime(pid)
}

// ticks adds up utime and stime, and with n 4 also the times of children that were waited for.
func ticks(pid, n int) (total time.Duration) {
	if fields := statOf(pid); len(fields) > 14 {
		for _, field := range fields[11 : 11+n] {
			count, _ := strconv.Atoi(field) // the kernel writes numbers
			total += time.Duration(count) * tick
		}
	}
	return total
}

// statOf returns the fields of /proc/PID/stat from the state on; the name before it may contain spaces.
func statOf(pid int) []string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // the process may be gone
	return strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
}

// peakMemory returns the largest resident size so far, in bytes (VmHWM).
func peakMemory(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM of process %d", pid)
}

// listenerOn returns the process that listens on a TCP port of this machine, or 0 when none can be seen: servers in
// containers are not visible.
func listenerOn(port int) int {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, _ := os.ReadFile(table) // a kernel may lack IPv6
		for line := range strings.Lines(string(data)) {
			const listening = "0A"
			if fields := strings.Fields(line); len(fields) > 9 && fields[3] == listening &&
				strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is well formed
	lowest := 0
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err != nil || !sockets[target] {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(descriptor, "/")[2])
		// Children inherit the socket, which their parent has too.
		if err == nil && (lowest == 0 || parentOf(lowest) == pid) {
			lowest = pid
		}
	}
	return lowest
}

func parentOf(pid int) int {
	if fields := statOf(pid); len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1]) // the kernel writes numbers
		return parent
	}
	return 0
}
