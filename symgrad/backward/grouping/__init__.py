"""Which steps make one line, and the line of a group, made once for all groups that are built alike."""
