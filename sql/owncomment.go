package sql

import "strings"

// ownCommentStart is the prefix of the comment on a destination's own column.
const ownCommentStart = "outbox-relay destination "

// OwnComment returns the comment on a destination's own column. The comment remains after the destination is removed
// from the configuration.
func OwnComment(destination, ours string) string { return ownCommentStart + destination + ": " + ours }

// ParseOwnComment returns the destination that owns the column with this comment, and the relay's name of the column;
// ok is false for any other comment.
func ParseOwnComment(comment string) (destination, ours string, ok bool) {
	rest, ok := strings.CutPrefix(comment, ownCommentStart)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ": ")
}
