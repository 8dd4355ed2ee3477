package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
)

// pollCommand is the argument with which the benchmark starts itself as a process that polls and does nothing else.
const pollCommand = "poll"

// startPoller starts the process that polls.
func startPoller(ctx context.Context) (*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(exec.CommandContext(ctx, self, pollCommand))
}

// poll queries the database for one number as often as an idle owner queries for rows, until ctx ends.
func poll(ctx context.Context) error {
	database, err := endpoint("TEST_DATABASE_URL")
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("connect to TEST_DATABASE_URL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		var one int
		if err := conn.QueryRow(ctx, "select 1").Scan(&one); err != nil && ctx.Err() == nil {
			return fmt.Errorf("poll: %w", err)
		}
	}
}
