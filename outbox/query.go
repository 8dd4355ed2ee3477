package outbox

import (
	"context"
	"fmt"
)

// query runs a statement with binary parameters and returns its rows in binary form.
func (t *Table) query(ctx context.Context, statement string, parameters ...[]byte) ([][][]byte, error) {
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	formats := make([]int16, len(parameters))
	for i := range formats {
		formats[i] = 1
	}
	result := conn.Conn().PgConn().ExecParams(ctx, statement, parameters, nil, formats, []int16{1}).Read()
	return result.Rows, result.Err
}
